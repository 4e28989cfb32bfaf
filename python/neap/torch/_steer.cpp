// The CPU allocator that hands out planned addresses, and a counter of the heap beside it.
//
// PyTorch asks one allocator for every CPU tensor, scratch included. While a planned call runs on a thread, its
// allocations get what the plan says: the k-th of the call, where it is an output, its address in the arena; all
// others places in the call's scratch, first fit. A call may allocate in another order than the plan's, since a smaller
// batch takes another path through a kernel: what has no room in the scratch gets the place of an output that is not
// allocated yet. What finds no place comes from the allocator that was there before, and is counted. Threads that run no
// planned call are not touched.
//
// Compiled on the user's machine against the PyTorch that is there: c10 has no stable ABI.
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>

#include <atomic>
#include <cstdint>
#include <cstring>
#include <malloc.h>
#include <unordered_map>
#include <vector>

#if defined(__linux__) && (defined(__x86_64__) || defined(__aarch64__))
#define NEAP_COUNTS_HEAP 1
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
#endif

namespace {

constexpr uint64_t ALIGNMENT = 64;
uint64_t aligned(uint64_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }

// ---- Scratch: first fit over the blocks that live ----

struct Block {
  uint64_t start, end;
};

struct Scratch {
  std::vector<Block> live; // by start
  uint64_t high = 0;       // the highest end so far

  // The offset of the new block, or UINT64_MAX where it would end above `capacity`.
  uint64_t take(uint64_t bytes, uint64_t capacity) {
    uint64_t start = 0;
    size_t i = 0;
    while (i < live.size() && live[i].start - start < bytes) start = live[i++].end;
    if (bytes > capacity || start > capacity - bytes) return UINT64_MAX;
    live.insert(live.begin() + static_cast<std::ptrdiff_t>(i), {start, start + bytes});
    if (start + bytes > high) high = start + bytes;
    return start;
  }

  bool give(uint64_t start) {
    for (size_t i = 0; i < live.size(); i++)
      if (live[i].start == start) {
        live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
        return true;
      }
    return false;
  }
};

// ---- Arenas ----

// Arenas, in slots that never move: other threads look while one is added. A slot is free where `high` is 0.
struct Arena {
  std::atomic<uint64_t> low{0}, high{0};
  std::atomic<int64_t> outstanding{0}; // blocks that were given and have not come back
};
constexpr size_t MOST_ARENAS = 1024;
Arena arenas[MOST_ARENAS];
std::atomic<size_t> arena_count{0}; // slots that were ever used
c10::Allocator *before = nullptr;

// The arena that an address lies in, or NULL.
Arena *arena_of(uint64_t address) {
  const size_t count = arena_count.load(std::memory_order_acquire);
  for (size_t i = 0; i < count; i++)
    if (address >= arenas[i].low.load(std::memory_order_relaxed) && address < arenas[i].high.load(std::memory_order_relaxed))
      return &arenas[i];
  return nullptr;
}

// ---- Programs: what the calls of a plan allocate ----

struct Output {
  int64_t index; // which allocation of the call
  uint64_t address, bytes; // address 0: it stays beyond the step, and comes from the heap
  uint64_t room;           // bytes at the address: more than `bytes` where the plan is for a larger shape
};

struct Program {
  std::vector<int64_t> start; // outputs of position p: [start[p], start[p + 1])
  std::vector<Output> outputs;
  std::vector<uint64_t> scratch_address, scratch_bytes; // by position
  Arena *arena = nullptr;
  uint64_t base = 0; // where the arena begins
  uint64_t high = 0; // the highest byte of the arena that was given, from its beginning
};

enum Mode { OFF, PLANNED, RECORDING, COUNTING };

// What the running call does, one a thread.
struct Running {
  Mode mode = OFF;
  Program *program = nullptr;
  int64_t position = 0, index = 0, given = 0;
  std::vector<bool> taken; // outputs of the call whose places were given
  Scratch scratch;
  int64_t unplanned = 0; // allocations of this call that got no planned address
  uint64_t unplanned_bytes = 0;
};
thread_local Running running;

// A record: one row for each allocation, in order.
struct Row {
  uint64_t bytes, address;
  int64_t freed; // number of the event at which it was freed; -1: not while recording
  int64_t made;  // number of the event at which it was made
};
thread_local std::vector<Row> rows;
thread_local int64_t events;

// Bytes of the heap that a piece of the user's code takes and gives back, and the blocks that it took. Blocks that it frees and did
// not take are counted by the heap's own sizes.
struct Counted {
  std::unordered_map<uint64_t, int64_t> blocks;
  int64_t live = 0, peak = 0;

  void take(uint64_t address, uint64_t bytes) {
    const auto size = static_cast<int64_t>(aligned(bytes));
    blocks[address] = size;
    live += size;
    if (live > peak) peak = live;
  }
  void give(void *data) {
    const auto block = blocks.find(reinterpret_cast<uint64_t>(data));
    live -= block != blocks.end() ? block->second : static_cast<int64_t>(malloc_usable_size(data) / ALIGNMENT * ALIGNMENT);
    if (block != blocks.end()) blocks.erase(block);
  }
};
thread_local Counted counted;

thread_local int inside; // > 0: in the allocator, whose own heap blocks are not counted as anybody else's

struct Inside {
  Inside() { inside++; }
  ~Inside() { inside--; }
};

// The address of output `i` of the running call, which is taken for `bytes` from now on.
uint64_t take_output(Running &r, size_t i, uint64_t bytes) {
  const Program &p = *r.program;
  const Output &output = p.outputs[static_cast<size_t>(p.start[static_cast<size_t>(r.position)]) + i];
  r.taken[i] = true;
  if (output.address == 0) return 0;
  const uint64_t top = output.address + bytes - p.base;
  if (top > r.program->high) r.program->high = top;
  return output.address;
}

// The address of this thread's next allocation inside the plan; 0: it has none. `*heap`: planned, but to come from the heap.
uint64_t place(Running &r, uint64_t bytes, bool *heap) {
  const Program &p = *r.program;
  const size_t at = static_cast<size_t>(r.position);
  const Output *outputs = p.outputs.data() + p.start[at];
  const int64_t index = r.index++;
  bytes = aligned(bytes);
  for (size_t i = 0; i < r.taken.size(); i++)
    if (outputs[i].index == index && outputs[i].bytes <= bytes && bytes <= outputs[i].room && !r.taken[i]) {
      r.given++;
      *heap = outputs[i].address == 0;
      return take_output(r, i, bytes);
    }
  const uint64_t offset = r.scratch.take(bytes, p.scratch_bytes[at]);
  if (offset != UINT64_MAX) {
    const uint64_t top = p.scratch_address[at] + offset + bytes - p.base;
    if (top > r.program->high) r.program->high = top;
    return p.scratch_address[at] + offset;
  }
  size_t best = r.taken.size();
  for (size_t i = 0; i < r.taken.size(); i++)
    if (!r.taken[i] && outputs[i].address != 0 && outputs[i].room >= bytes &&
        (best == r.taken.size() || outputs[i].room < outputs[best].room))
      best = i;
  return best < r.taken.size() ? take_output(r, best, bytes) : 0;
}

void give_back(void *data) {
  const uint64_t address = reinterpret_cast<uint64_t>(data);
  if (Arena *arena = arena_of(address)) {
    arena->outstanding--;
    Running &r = running;
    if (r.mode == PLANNED && r.program->arena == arena) {
      const uint64_t scratch = r.program->scratch_address[static_cast<size_t>(r.position)];
      if (address >= scratch) r.scratch.give(address - scratch);
    }
    return;
  }
  if (running.mode == RECORDING)
    for (size_t i = rows.size(); i-- > 0;)
      if (rows[i].address == address && rows[i].freed < 0) {
        rows[i].freed = events++;
        break;
      }
  Inside guard;
  if (running.mode == COUNTING) counted.give(data);
  before->raw_deleter()(data);
}

struct Steered final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    void *data = nullptr;
    Running &r = running;
    if (bytes > 0 && r.mode == PLANNED) {
      bool heap = false;
      data = reinterpret_cast<void *>(place(r, bytes, &heap));
      if (data != nullptr) r.program->arena->outstanding++;
      if (data == nullptr && !heap) r.unplanned++, r.unplanned_bytes += bytes;
    }
    if (data == nullptr) {
      Inside guard;
      data = before->raw_allocate(bytes);
    }
    if (bytes > 0 && r.mode == RECORDING) rows.push_back({bytes, reinterpret_cast<uint64_t>(data), -1, events++});
    if (bytes > 0 && r.mode == COUNTING) {
      Inside guard;
      counted.take(reinterpret_cast<uint64_t>(data), bytes);
    }
    return {data, data, &give_back, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &give_back; }
  void copy_data(void *to, const void *from, std::size_t count) const override { std::memcpy(to, from, count); }
};

Steered steered;

} // namespace

extern "C" {

// Puts the allocator in. The one before it serves whatever is not planned. Idempotent.
void neap_steer_install() {
  if (before != nullptr) return;
  before = c10::GetCPUAllocator();
  c10::SetCPUAllocator(&steered, 255);
}

// Makes the memory at `address` known as an arena. Its slot, or -1 where all are taken.
int64_t neap_steer_arena(uint64_t address, uint64_t bytes) {
  for (size_t i = 0; i < MOST_ARENAS; i++) {
    Arena &arena = arenas[i];
    if (arena.high != 0) continue;
    arena.outstanding = 0;
    arena.low = address, arena.high = address + bytes;
    if (i >= arena_count) arena_count = i + 1;
    return static_cast<int64_t>(i);
  }
  return -1;
}

// Blocks of the arena that tensors still hold.
int64_t neap_steer_arena_outstanding(int64_t slot) { return arenas[slot].outstanding; }

// Forgets the arena; only while nothing of it is outstanding.
void neap_steer_arena_free(int64_t slot) { arenas[slot].low = 0, arenas[slot].high = 0; }

// A program of `positions` calls over an arena. Arrays as in struct Program; copied. NULL where memory is out.
void *neap_steer_program(int64_t positions, const int64_t *start, const int64_t *index, const uint64_t *address,
                         const uint64_t *bytes, const uint64_t *room, const uint64_t *scratch_address, const uint64_t *scratch_bytes,
                         int64_t slot) {
  auto *p = new (std::nothrow) Program;
  if (p == nullptr) return nullptr;
  p->start.assign(start, start + positions + 1);
  for (int64_t i = 0; i < start[positions]; i++) p->outputs.push_back({index[i], address[i], bytes[i], room[i]});
  p->scratch_address.assign(scratch_address, scratch_address + positions);
  p->scratch_bytes.assign(scratch_bytes, scratch_bytes + positions);
  p->arena = &arenas[slot], p->base = arenas[slot].low;
  return p;
}

// Frees a program that no thread runs.
void neap_steer_program_free(void *program) { delete static_cast<Program *>(program); }

// From here on this thread runs call `position` of the program.
void neap_steer_begin(void *program, int64_t position) {
  Running &r = running;
  r.program = static_cast<Program *>(program);
  r.position = position;
  r.index = 0, r.given = 0, r.unplanned = 0, r.unplanned_bytes = 0;
  const int64_t *start = r.program->start.data() + position;
  r.taken.assign(static_cast<size_t>(start[1] - start[0]), false);
  r.scratch.live.clear(), r.scratch.high = 0;
  r.mode = PLANNED;
}

// The call is done, and its results are still held. 0: every allocation had its planned address. Else bits: 1 an allocation
// had none; 2 an output was not allocated as planned; 4 something of its scratch is held: a result may lie there.
int neap_steer_check() {
  const Running &r = running;
  const size_t at = static_cast<size_t>(r.position);
  const int64_t expected = r.program->start[at + 1] - r.program->start[at];
  return (r.unplanned > 0 ? 1 : 0) | (r.given != expected ? 2 : 0) | (r.scratch.live.empty() ? 0 : 4);
}

// Its results are let go. Not 0: scratch is still in use, and will be overwritten.
int neap_steer_end() {
  running.mode = OFF;
  return running.scratch.live.empty() ? 0 : 1;
}

// Bytes that the last call allocated beside the plan.
uint64_t neap_steer_unplanned_bytes() { return running.unplanned_bytes; }

// The highest byte of the arena that was given since the program was made, counted from its beginning.
uint64_t neap_steer_high(void *program) { return static_cast<Program *>(program)->high; }

// Records this thread's allocations until neap_steer_recorded.
void neap_steer_record() {
  rows.clear();
  events = 0;
  running.mode = RECORDING;
}

// Ends recording: how many allocations there were.
int64_t neap_steer_recorded() {
  running.mode = OFF;
  return static_cast<int64_t>(rows.size());
}

// Counts the bytes that this thread takes from the heap and gives back, until neap_steer_counted. anew: from 0; else it goes on.
void neap_steer_count(int anew) {
  Inside guard;
  if (anew) counted.blocks.clear(), counted.live = counted.peak = 0;
  running.mode = COUNTING;
}

// Ends counting: the bytes that are live beside those at its begin, and the most that were.
void neap_steer_counted(int64_t *live, int64_t *peak) {
  running.mode = OFF;
  *live = counted.live, *peak = counted.peak;
}

// Row `i` of the record: bytes, address, whether it was freed while recording.
void neap_steer_row(int64_t i, uint64_t *bytes, uint64_t *address, int *freed) {
  const Row &row = rows[static_cast<size_t>(i)];
  *bytes = row.bytes, *address = row.address, *freed = row.freed >= 0;
}

// The scratch that the recorded call needs where allocations with keep[i] != 0 lie elsewhere: the highest end of
// the same first fit that PLANNED uses.
uint64_t neap_steer_scratch(const int *keep) {
  Scratch scratch;
  std::vector<uint64_t> offset(rows.size(), UINT64_MAX);
  for (int64_t e = 0; e < events; e++)
    for (size_t i = 0; i < rows.size(); i++) {
      if (keep[i]) continue;
      if (rows[i].made == e) offset[i] = scratch.take(aligned(rows[i].bytes), UINT64_MAX - 1);
      if (rows[i].freed == e) scratch.give(offset[i]);
    }
  return scratch.high;
}

// ---- The heap beside the allocator: what oneDNN, MKL and others take by malloc ----

#ifdef NEAP_COUNTS_HEAP

static std::atomic<int64_t> heap_live{0}, heap_peak{0};
static std::atomic<bool> count_all{false}; // PyTorch's allocator too

// A step that another thread runs meanwhile is not counted.
static thread_local bool excluded = false;

static void *count(void *p) {
  if (excluded || (inside > 0 && !count_all) || p == nullptr) return p;
  const int64_t bytes = static_cast<int64_t>(malloc_usable_size(p));
  const int64_t now = heap_live.fetch_add(bytes) + bytes;
  int64_t old = heap_peak.load();
  while (now > old && !heap_peak.compare_exchange_weak(old, now)) {
  }
  return p;
}

static void uncount(void *p) {
  if (!excluded && (inside == 0 || count_all) && p != nullptr) heap_live.fetch_sub(static_cast<int64_t>(malloc_usable_size(p)));
}

static void *counted_malloc(size_t n) { return count(malloc(n)); }
static void *counted_calloc(size_t k, size_t n) { return count(calloc(k, n)); }
static void *counted_memalign(size_t a, size_t n) { return count(memalign(a, n)); }
static void *counted_aligned_alloc(size_t a, size_t n) { return count(aligned_alloc(a, n)); }
static int counted_posix_memalign(void **p, size_t a, size_t n) {
  const int status = posix_memalign(p, a, n);
  if (status == 0) count(*p);
  return status;
}
static void *counted_realloc(void *p, size_t n) {
  uncount(p);
  void *q = realloc(p, n);
  return count(q != nullptr || n == 0 ? q : p);
}
static void counted_free(void *p) {
  uncount(p);
  free(p);
}

struct Redirected {
  const char *name;
  void *real, *counting;
};
static const Redirected redirected[] = {
    {"malloc", (void *)malloc, (void *)counted_malloc},
    {"calloc", (void *)calloc, (void *)counted_calloc},
    {"realloc", (void *)realloc, (void *)counted_realloc},
    {"free", (void *)free, (void *)counted_free},
    {"posix_memalign", (void *)posix_memalign, (void *)counted_posix_memalign},
    {"memalign", (void *)memalign, (void *)counted_memalign},
    {"aligned_alloc", (void *)aligned_alloc, (void *)counted_aligned_alloc},
};

#ifdef __x86_64__
enum { JUMP_SLOT = R_X86_64_JUMP_SLOT, GLOBAL = R_X86_64_GLOB_DAT };
#else
enum { JUMP_SLOT = R_AARCH64_JUMP_SLOT, GLOBAL = R_AARCH64_GLOB_DAT };
#endif

static void redirect(ElfW(Addr) base, ElfW(Addr) table, size_t bytes, const ElfW(Sym) * symbols, const char *strings,
                     bool on) {
  const auto page_size = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto *r = reinterpret_cast<const ElfW(Rela) *>(table);
  for (const auto *end = r + bytes / sizeof *r; r < end; r++) {
    const auto type = ELF64_R_TYPE(r->r_info);
    if (type != JUMP_SLOT && type != GLOBAL) continue;
    const char *name = strings + symbols[ELF64_R_SYM(r->r_info)].st_name;
    for (const Redirected &f : redirected) {
      if (strcmp(name, f.name) != 0) continue;
      auto *slot = reinterpret_cast<void **>(base + r->r_offset);
      void *value = on ? f.counting : f.real;
      const uintptr_t page = reinterpret_cast<uintptr_t>(slot) & ~(page_size - 1);
      if (*slot != value && mprotect(reinterpret_cast<void *>(page), page_size, PROT_READ | PROT_WRITE) == 0)
        *slot = value;
    }
  }
}

static int visit(struct dl_phdr_info *object, size_t, void *on) {
  const ElfW(Dyn) *dynamic = nullptr;
  for (int i = 0; i < object->dlpi_phnum; i++) {
    const ElfW(Phdr) &h = object->dlpi_phdr[i];
    const ElfW(Addr) start = object->dlpi_addr + h.p_vaddr;
    if (h.p_type == PT_LOAD && reinterpret_cast<uintptr_t>(redirected) - start < h.p_memsz) return 0; // this library
    if (h.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn) *>(start);
  }
  if (dynamic == nullptr || strstr(object->dlpi_name, "ld-linux") != nullptr ||
      strstr(object->dlpi_name, "linux-vdso") != nullptr)
    return 0;
  ElfW(Addr) v[DT_NUM] = {};
  for (; dynamic->d_tag != DT_NULL; dynamic++)
    if (dynamic->d_tag > 0 && dynamic->d_tag < DT_NUM) v[dynamic->d_tag] = dynamic->d_un.d_ptr;
  if (v[DT_SYMTAB] == 0 || v[DT_STRTAB] == 0) return 0;
  const auto *symbols = reinterpret_cast<const ElfW(Sym) *>(v[DT_SYMTAB]);
  const auto *strings = reinterpret_cast<const char *>(v[DT_STRTAB]);
  redirect(object->dlpi_addr, v[DT_RELA], v[DT_RELASZ], symbols, strings, on != nullptr);
  redirect(object->dlpi_addr, v[DT_JMPREL], v[DT_PLTRELSZ], symbols, strings, on != nullptr);
  return 0;
}

int neap_heap_counts() { return 1; }
// Counts malloc and its family in every library that is loaded now, from 0.
void neap_heap_on() {
  dl_iterate_phdr(visit, reinterpret_cast<void *>(1));
  heap_live = 0, heap_peak = 0;
}
// Whether what PyTorch's allocator takes is counted as well.
void neap_heap_count_all(int on) { count_all = on != 0; }
void neap_heap_off() { dl_iterate_phdr(visit, nullptr); }
// Whether what this thread takes is left out.
void neap_heap_exclude(int on) { excluded = on != 0; }
int64_t neap_heap_live() { return heap_live; }
int64_t neap_heap_peak() { return heap_peak; }
// The peak begins anew at what is live.
void neap_heap_mark() { heap_peak = heap_live.load(); }

#else

int neap_heap_counts() { return 0; }
void neap_heap_on() {}
void neap_heap_off() {}
void neap_heap_exclude(int) {}
void neap_heap_count_all(int) {}
int64_t neap_heap_live() { return 0; }
int64_t neap_heap_peak() { return 0; }
void neap_heap_mark() {}

#endif

} // extern "C"
