/* Preloaded into a command: fails one of its calls of the system on files of interest, whoever makes it,
 * stdio and other libraries, too: a filter of seccomp traps these calls, and a handler here makes them.
 *
 *   FAIL_IO_FILES  beginnings of absolute paths, separated by colons; calls on
 *                  other files are left alone and not counted
 *   FAIL_IO        "KIND NUMBER HOW": the call of this number, from 1, of this
 *                  kind (a name in `rows`; `any`: of all together) fails
 *   FAIL_IO_LOG    a file that gets a line for each call: its kind, whether it
 *                  failed (1), what it gave, the bytes of the file after it (-1:
 *                  not known), and its path or paths, with tabs between them
 *
 * HOW is one of
 *
 *   EIO, ENOSPC, ... (`errors`)  nothing is done; the call ends with this error
 *   short                        half of the bytes move, in whole pages where
 *                                there are two
 *   none                         nothing moves: the file ends, or takes nothing
 *   flip                         a write changes a byte on its way
 *   before, after, half          the process is killed before the call, after
 *                                it, or when half of a write is done
 *
 * "slow" alone makes each read and write take a millisecond more.
 *
 * The command must not replace itself (execve): the filter stays, but not the handler. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

/* ---- Calls of the system that the filter lets through ---- */

long plain_call(long number, long a, long b, long c, long d, long e, long f);
extern const char plain_call_end[];

#if defined(__x86_64__)
enum { ARCHITECTURE = AUDIT_ARCH_X86_64 };
__asm__(
    ".text\n.globl plain_call\n.hidden plain_call\n.globl plain_call_end\n.hidden "
    "plain_call_end\nplain_call:\n"
    "mov %rdi,%rax\nmov %rsi,%rdi\nmov %rdx,%rsi\nmov %rcx,%rdx\nmov %r8,%r10\nmov %r9,%r8\nmov 8(%rsp),%r9\n"
    "syscall\nplain_call_end:\nret\n");
static const int argument_registers[] = {REG_RDI, REG_RSI, REG_RDX, REG_R10, REG_R8, REG_R9};
#define REGISTER(context, i) (context)->uc_mcontext.gregs[argument_registers[i]]
#define RESULT(context)      (context)->uc_mcontext.gregs[REG_RAX]
#elif defined(__aarch64__)
enum { ARCHITECTURE = AUDIT_ARCH_AARCH64 };
__asm__(".text\n.globl plain_call\n.hidden plain_call\n.globl plain_call_end\n.hidden "
        "plain_call_end\nplain_call:\n"
        "mov x8,x0\nmov x0,x1\nmov x1,x2\nmov x2,x3\nmov x3,x4\nmov x4,x5\nmov x5,x6\nsvc "
        "0\nplain_call_end:\nret\n");
#define REGISTER(context, i) (context)->uc_mcontext.regs[i]
#define RESULT(context)      (context)->uc_mcontext.regs[0]
#endif

/* ---- The calls that may fail ---- */

/* Where a call has its files: a descriptor, a path, a folder's descriptor and a path; two of these for a call
 * that names two. */
enum form { DESCRIPTOR, PATH, PATH_AT, TWO_PATHS, TWO_PATHS_AT, MAPPED };

static const struct row {
  int number;
  const char *kind;
  enum form form;
} rows[] = {
    {SYS_openat, "open", PATH_AT},
    {SYS_read, "read", DESCRIPTOR},
    {SYS_pread64, "read", DESCRIPTOR},
    {SYS_readv, "read", DESCRIPTOR},
    {SYS_write, "write", DESCRIPTOR},
    {SYS_pwrite64, "write", DESCRIPTOR},
    {SYS_writev, "write", DESCRIPTOR},
    {SYS_fsync, "sync", DESCRIPTOR},
    {SYS_fdatasync, "sync", DESCRIPTOR},
    {SYS_ftruncate, "cut", DESCRIPTOR},
    {SYS_fallocate, "reserve", DESCRIPTOR},
    {SYS_close, "close", DESCRIPTOR},
    {SYS_mmap, "map", MAPPED},
    {SYS_getdents64, "list", DESCRIPTOR},
    {SYS_newfstatat, "look", PATH_AT},
    {SYS_faccessat, "look", PATH_AT},
    {SYS_fstat, "look", DESCRIPTOR},
    {SYS_renameat, "rename", TWO_PATHS_AT},
    {SYS_linkat, "link", TWO_PATHS_AT},
    {SYS_unlinkat, "remove", PATH_AT},
    {SYS_mkdirat, "make", PATH_AT},
#ifdef SYS_open
    {SYS_open, "open", PATH},
    {SYS_access, "look", PATH},
    {SYS_stat, "look", PATH},
    {SYS_lstat, "look", PATH},
    {SYS_rename, "rename", TWO_PATHS},
    {SYS_link, "link", TWO_PATHS},
    {SYS_unlink, "remove", PATH},
    {SYS_rmdir, "remove", PATH},
    {SYS_mkdir, "make", PATH},
#endif
};
enum { ROWS = sizeof rows / sizeof *rows, PAGE = 4096 };

static const struct {
  const char *name;
  int number;
} errors[] = {{"EIO", EIO},       {"ENOSPC", ENOSPC}, {"EINTR", EINTR}, {"EACCES", EACCES},
              {"EMFILE", EMFILE}, {"ENOMEM", ENOMEM}, {"EXDEV", EXDEV}};

/* What the environment asks for, read before anything is trapped. */
static struct {
  char files[4 * PATH_MAX], kind[16], how[16];
  int number, log, error;
  bool slow;
} wish = {.log = -1};

/* ---- A call's files ---- */

struct call {
  const struct row *row;
  long arguments[6];
  char paths[2][PATH_MAX];
};

static long again(const struct call *c) {
  const long *a = c->arguments;
  return plain_call(c->row->number, a[0], a[1], a[2], a[3], a[4], a[5]);
}

static void put_number(char *text, long number) {
  char digits[24];
  int count = 0;
  const bool below = number < 0;
  if (below) number = -number;
  do digits[count++] = (char)('0' + number % 10);
  while ((number /= 10) > 0);
  if (below) *text++ = '-';
  while (count > 0) *text++ = digits[--count];
  *text = '\0';
}

static void find_descriptor(int descriptor, char *path) {
  char link[64] = "/proc/self/fd/";
  path[0] = '\0';
  if (descriptor < 0) return;
  put_number(link + strlen(link), descriptor);
  const long length = plain_call(SYS_readlinkat, AT_FDCWD, (long)link, (long)path, PATH_MAX - 1, 0, 0);
  path[length > 0 ? length : 0] = '\0';
}

static void find_path(int folder, const char *given, char *path) {
  size_t length = 0;
  if (given == NULL) given = "";
  if (given[0] != '/') {
    if (folder == AT_FDCWD && plain_call(SYS_getcwd, (long)path, PATH_MAX, 0, 0, 0, 0) <= 0) path[0] = '\0';
    if (folder != AT_FDCWD) find_descriptor(folder, path);
    length = strlen(path);
    if (given[0] != '\0' && length + 1 < PATH_MAX) path[length++] = '/';
  }
  while (given[0] == '.' && given[1] == '/') given += 2;
  while (*given != '\0' && length + 1 < PATH_MAX) path[length++] = *given++;
  path[length] = '\0';
}

static void find_files(struct call *c) {
  const long *a = c->arguments;
  c->paths[1][0] = '\0';
  switch (c->row->form) {
  case DESCRIPTOR:
    find_descriptor((int)a[0], c->paths[0]);
    break;
  case MAPPED:
    find_descriptor((int)a[4], c->paths[0]);
    break;
  case PATH:
    find_path(AT_FDCWD, (const char *)a[0], c->paths[0]);
    break;
  case PATH_AT:
    find_path((int)a[0], (const char *)a[1], c->paths[0]);
    break;
  case TWO_PATHS:
    find_path(AT_FDCWD, (const char *)a[0], c->paths[0]);
    find_path(AT_FDCWD, (const char *)a[1], c->paths[1]);
    break;
  case TWO_PATHS_AT:
    find_path((int)a[0], (const char *)a[1], c->paths[0]);
    find_path((int)a[2], (const char *)a[3], c->paths[1]);
    break;
  }
}

static bool begins(const char *path) {
  for (const char *from = wish.files; *from != '\0';) {
    const size_t length = strcspn(from, ":");
    if (length > 0 && strncmp(path, from, length) == 0) return true;
    from += length + (from[length] == ':');
  }
  return false;
}

static void write_log(const struct call *c, bool failed, long result) {
  struct stat status;
  char line[2 * PATH_MAX + 128] = "", *at = line;
  status.st_size = -1;
  if (wish.log < 0) return;
  if (c->row->form == DESCRIPTOR && plain_call(SYS_fstat, c->arguments[0], (long)&status, 0, 0, 0, 0) != 0)
    status.st_size = -1;
  at = stpcpy(stpcpy(at, c->row->kind), failed ? "\t1\t" : "\t0\t");
  put_number(at, result);
  at = stpcpy(at + strlen(at), "\t");
  put_number(at, status.st_size);
  at = stpcpy(stpcpy(at + strlen(at), "\t"), c->paths[0]);
  if (c->paths[1][0] != '\0') at = stpcpy(stpcpy(at, "\t"), c->paths[1]);
  at = stpcpy(at, "\n");
  plain_call(SYS_write, wish.log, (long)line, at - line, 0, 0, 0);
}

/* ---- Faults ---- */

static void die(void) {
  plain_call(SYS_kill, plain_call(SYS_getpid, 0, 0, 0, 0, 0, 0), SIGKILL, 0, 0, 0, 0);
  for (;;) plain_call(SYS_sched_yield, 0, 0, 0, 0, 0, 0);
}

static bool is(const char *how) { return strcmp(wish.how, how) == 0; }

static bool moves(const struct call *c) {
  return c->row->form == DESCRIPTOR && c->row->number != SYS_readv && c->row->number != SYS_writev &&
         (strcmp(c->row->kind, "read") == 0 || strcmp(c->row->kind, "write") == 0);
}

static long half(struct call *c) {
  const long bytes = c->arguments[2], some = bytes / 2;
  c->arguments[2] = bytes >= 2 * PAGE ? some / PAGE * PAGE : some > 0 ? some : bytes;
  const long result = again(c);
  c->arguments[2] = bytes;
  return result;
}

static long flip(struct call *c) {
  const long bytes = c->arguments[2];
  unsigned char *data = (unsigned char *)c->arguments[1];
  if (bytes <= 0) return again(c);
  unsigned char *copy = (unsigned char *)plain_call(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
                                                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  memcpy(copy, data, (size_t)bytes);
  copy[bytes / 2] ^= 16;
  c->arguments[1] = (long)copy;
  const long result = again(c);
  c->arguments[1] = (long)data;
  plain_call(SYS_munmap, (long)copy, bytes, 0, 0, 0, 0);
  return result;
}

static long fail(struct call *c) {
  if (is("before")) write_log(c, true, 0), die();
  if (is("half") && moves(c)) half(c);
  if (is("after")) again(c);
  if (is("half") || is("after")) write_log(c, true, 0), die();
  if (is("short") && moves(c)) return half(c);
  if (is("none") && moves(c)) return 0;
  if (is("flip") && moves(c)) return flip(c);
  if (wish.error != 0 && c->row->number == SYS_close) again(c); /* it is closed all the same */
  return wish.error != 0 ? -wish.error : again(c);
}

static long make(struct call *c) {
  static atomic_int count;
  find_files(c);
  if (!begins(c->paths[0]) && (c->paths[1][0] == '\0' || !begins(c->paths[1]))) return again(c);
  if (wish.slow && moves(c)) {
    const struct timespec pause = {.tv_nsec = 1000000};
    plain_call(SYS_clock_nanosleep, CLOCK_MONOTONIC, 0, (long)&pause, 0, 0, 0);
  }
  const bool counts = strcmp(wish.kind, "any") == 0 || strcmp(wish.kind, c->row->kind) == 0;
  const bool fails = counts && ++count == wish.number;
  const long result = fails ? fail(c) : again(c);
  write_log(c, fails, result);
  return result;
}

static void handle(int signal, siginfo_t *information, void *context) {
  struct call call;
  ucontext_t *user = context;
  (void)signal;
  for (int i = 0; i < 6; i++) call.arguments[i] = (long)REGISTER(user, i);
  call.row = NULL;
  for (int i = 0; i < ROWS; i++)
    if (rows[i].number == information->si_syscall) call.row = &rows[i];
  RESULT(user) = call.row != NULL ? make(&call) : -ENOSYS;
}

/* ---- Preparations ---- */

static void trap(void) {
  const uint64_t end = (uint64_t)(uintptr_t)plain_call_end;
  const uint32_t address = offsetof(struct seccomp_data, instruction_pointer);
  struct sock_filter filter[16 + 2 * ROWS];
  unsigned short n = 0;
#define LOAD(at) filter[n++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at)
#define IF_EQUAL(value, then, otherwise)                                                                     \
  filter[n++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, then, otherwise)
#define END(action) filter[n++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, action)
  LOAD(offsetof(struct seccomp_data, arch)); /* numbers of calls are an architecture's */
  IF_EQUAL(ARCHITECTURE, 1, 0);
  END(SECCOMP_RET_ALLOW);
  LOAD(address); /* little-endian */
  IF_EQUAL((uint32_t)end, 0, 3);
  LOAD(address + 4);
  IF_EQUAL((uint32_t)(end >> 32), 0, 1);
  END(SECCOMP_RET_ALLOW);
  LOAD(offsetof(struct seccomp_data, nr));
  for (int i = 0; i < ROWS; i++) {
    IF_EQUAL((uint32_t)rows[i].number, 0, 1);
    END(SECCOMP_RET_TRAP);
  }
  END(SECCOMP_RET_ALLOW);
  const struct sock_fprog program = {.len = n, .filter = filter};
  struct sigaction action = {.sa_sigaction = handle, .sa_flags = (int)(SA_SIGINFO | SA_NODEFER | SA_RESTART)};
  if (sigaction(SIGSYS, &action, NULL) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("fail_io: the system takes no filter");
    _exit(77);
  }
}

__attribute__((constructor)) static void prepare(void) {
  const char *files = getenv("FAIL_IO_FILES"), *given = getenv("FAIL_IO"), *log = getenv("FAIL_IO_LOG");
  if (files == NULL) return;
  snprintf(wish.files, sizeof wish.files, "%s", files);
  wish.slow = given != NULL && strcmp(given, "slow") == 0;
  if (given != NULL && !wish.slow && sscanf(given, "%15s %d %15s", wish.kind, &wish.number, wish.how) != 3) {
    fprintf(stderr, "fail_io: FAIL_IO is not KIND NUMBER HOW (got %s)\n", given);
    _exit(77);
  }
  for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
    if (is(errors[i].name)) wish.error = errors[i].number;
  if (log != NULL)
    wish.log = fcntl(open(log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666), F_DUPFD_CLOEXEC, 500);
  trap();
}

/* Threads that take no signals take this one: else the system ends the process at the first call that is
 * trapped. */
typedef int masking(int, const sigset_t *, sigset_t *);
static int mask(const char *name, int how, const sigset_t *set, sigset_t *former) {
  masking *real = (masking *)dlsym(RTLD_NEXT, name);
  sigset_t all;
  if (set != NULL) all = *set, sigdelset(&all, SIGSYS);
  return real(how, set != NULL && how != SIG_UNBLOCK ? &all : set, former);
}
int pthread_sigmask(int how, const sigset_t *set, sigset_t *former) {
  return mask("pthread_sigmask", how, set, former);
}
int sigprocmask(int how, const sigset_t *set, sigset_t *former) {
  return mask("sigprocmask", how, set, former);
}
