#include "text/chat_template.h"

#include <stdio.h>
#include <string.h>

#include "text/chat_jinja.h"
#include "text/utf8.h"

const char *const chat_role_names[CHAT_ROLES] = {"system", "user", "assistant", "tool"};

/* Signs in the texts of a row for texts that are only known when it renders. */
#define BOS  "\1"
#define EOS  "\2"
#define DATE "\3"

/* The texts around a message's content. */
struct turn {
  const char *before; /* of the assistant: the generation prompt; NULL: the role has no turn */
  const char *lead;   /* of the assistant: what it writes itself before its content */
  const char *end;    /* the token that ends the turn, which carries the assistant's loss */
  const char *after;
};

/* The place of a first system message. */
enum system_place {
  SYSTEM_TURN,       /* in its own turn */
  SYSTEM_HEAD,       /* in the row's head, which is there without it, too */
  SYSTEM_FIRST_USER, /* before the content of the first message */
  SYSTEM_LAST_USER,  /* before that of the last message, where that is a user's; else nowhere */
};

enum trimming {
  TRIM_NOTHING,
  TRIM_CONTENT,   /* of every message */
  TRIM_WITH_HEAD, /* the same, where the system's text is before it, with that */
  TRIM_ASSISTANT,
};

enum { MARKS = 5 };

struct chat_format {
  const char *name;
  const char *has[MARKS], *lacks[MARKS];    /* in the program as chat_jinja.h spells it */
  const char *system_before, *system_after; /* of the default system text there; NULL: it has none */
  const char *usual_system;                 /* of the row where it is named */
  struct turn turns[CHAT_ROLES];            /* by role */
  const char *head, *head_after;            /* around the system's text in the head */
  const char *system_open, *system_close;   /* around it before a user's content */
  const char *tools_open, *tools_close;     /* around tools' messages that follow each other */
  const char *finish;                       /* at the end, where no prompt follows */
  const char *input;                        /* between an instruction and its input; NULL: a line feed */
  enum system_place system;
  enum trimming trim;
  bool bos;             /* at the beginning; of a program that is found, whether it says so */
  bool alternate;       /* users and assistants take turns */
  bool no_empty_system; /* a system's message without content is left out */
  bool json_tools;      /* the content of a tool's message is a string of JSON */
  bool thinks;          /* the content of assistants' messages is that of Qwen3 */
};

#define CHATML(role) "<|im_start|>" role "\n", "", "<|im_end|>", "\n"
#define LLAMA3(role) "<|start_header_id|>" role "<|end_header_id|>\n\n", "", "<|eot_id|>", ""
#define GEMMA(role)  "<start_of_turn>" role "\n", "", "<end_of_turn>", "\n"
#define PHI3(role)   "<|" role "|>\n", "", "<|end|>", "\n"
#define PHI4(role)   "<|im_start|>" role "<|im_sep|>", "", "<|im_end|>", ""
#define ZEPHYR(role) "<|" role "|>\n", "", EOS, "\n"
#define QWEN_TOOLS   .tools_open = "<|im_start|>user", .tools_close = "<|im_end|>\n"
#define QWEN_TOOL    "\n<tool_response>\n", "", "", "\n</tool_response>"
#define ALPACA_SYSTEM                                                                                        \
  "Below is an instruction that describes a task. Write a response that appropriately completes the "        \
  "request."

/* Marks are expressions, so that a template that treats the content differently is another template. The
 * first row that fits is used. */
static const struct chat_format formats[] = {
    {.name = "chatml",
     .has = {"'<|im_start|>'+message['role']+'\\n'+message['content']+'<|im_end|>\\n'",
             "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}"},
     .lacks = {"tool", "think", "raise_exception", "message['role']=="},
     .system_before = "'<|im_start|>system\\n",
     .system_after = "<|im_end|>\\n'",
     .turns = {{CHATML("system")}, {CHATML("user")}, {CHATML("assistant")}, {CHATML("tool")}}},
    {.name = "qwen2.5",
     .has = {"'<|im_start|>'+message['role']+'\\n'+message['content']+'<|im_end|>\\n'",
             "{%if(message['role']=='user')or(message['role']=='system'andnotloop.first)or",
             "\\n<tool_response>\\n", "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}"},
     .lacks = {"think"},
     .system_before = "'<|im_start|>system\\n",
     .system_after = "<|im_end|>\\n'",
     .usual_system = "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
     QWEN_TOOLS,
     .turns = {{CHATML("system")}, {CHATML("user")}, {CHATML("assistant")}, {QWEN_TOOL}}},
    {.name = "qwen3",
     .has = {"{%ifloop.lastor(notloop.lastandreasoning_content)%}", "ns.last_query_index",
             "'\\n<think>\\n'+reasoning_content.strip('\\n')+'\\n</think>\\n\\n'+content.lstrip('\\n')",
             "\\n<tool_response>\\n", "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}"},
     QWEN_TOOLS,
     .thinks = true,
     .turns = {{CHATML("system")}, {CHATML("user")}, {CHATML("assistant")}, {QWEN_TOOL}}},
    {.name = "qwen3-2507",
     .has = {"{%elifmessage['role']=='assistant'%}{{'<|im_start|>'+message['role']+'\\n'+content}}",
             "{%if(message['role']=='user')or(message['role']=='system'andnotloop.first)%}",
             "\\n<tool_response>\\n", "{%ifadd_generation_prompt%}{{'<|im_start|>assistant\\n'}}"},
     .lacks = {"think"},
     QWEN_TOOLS,
     .turns = {{CHATML("system")}, {CHATML("user")}, {CHATML("assistant")}, {QWEN_TOOL}}},
    {.name = "llama2",
     .has = {"{{bos_token+'[INST] '+content.strip()+' [/INST]'}}", "{{' '+content.strip()+' '+eos_token}}",
             "'<<SYS>>\\n'+system_message+'\\n<</SYS>>\\n\\n'+message['content']"},
     .system = SYSTEM_FIRST_USER,
     .system_open = "<<SYS>>\n",
     .system_close = "\n<</SYS>>\n\n",
     .trim = TRIM_WITH_HEAD,
     .alternate = true,
     .turns = {[CHAT_USER] = {BOS "[INST] ", "", "", " [/INST]"}, [CHAT_ASSISTANT] = {"", " ", " " EOS, ""}}},
    {.name = "llama3",
     .has = {"'<|start_header_id|>'+message['role']+'<|end_header_id|>\\n\\n'+message['content']|trim+'<|eot_"
             "id|>'",
             "{%setcontent=bos_token+content%}"},
     .lacks = {"Cutting Knowledge", "tool"},
     .bos = true,
     .trim = TRIM_CONTENT,
     .turns = {{LLAMA3("system")}, {LLAMA3("user")}, {LLAMA3("assistant")}, {LLAMA3("tool")}}},
    {.name = "llama3.1",
     .has = {"'<|start_header_id|>'+message['role']+'<|end_header_id|>\\n\\n'+message['content']|trim+'<|eot_"
             "id|>'",
             "'Cutting Knowledge Date: December 2023\\n'", "'Today Date: '+date_string+'\\n\\n'",
             "<|start_header_id|>ipython<|end_header_id|>"},
     .bos = true,
     .trim = TRIM_CONTENT,
     .system = SYSTEM_HEAD,
     .head = "<|start_header_id|>system<|end_header_id|>\n\nCutting Knowledge Date: December 2023\nToday "
             "Date: " DATE "\n\n",
     .head_after = "<|eot_id|>",
     .json_tools = true,
     .turns = {{LLAMA3("system")}, {LLAMA3("user")}, {LLAMA3("assistant")}, {LLAMA3("ipython")}}},
    {.name = "gemma",
     .has = {"'<start_of_turn>'+role+'\\n'+message['content']|trim+'<end_of_turn>\\n'",
             "'System role not supported'", "{{bos_token}}"},
     .bos = true,
     .trim = TRIM_CONTENT,
     .alternate = true,
     .turns = {[CHAT_USER] = {GEMMA("user")}, [CHAT_ASSISTANT] = {GEMMA("model")}}},
    {.name = "gemma3",
     .has = {"'<start_of_turn>'+role+'\\n'+(first_user_prefixifloop.firstelse'')",
             "{%setfirst_user_prefix=messages[0]['content']+'\\n\\n'%}", "{{message['content']|trim}}",
             "{{bos_token}}"},
     .bos = true,
     .trim = TRIM_CONTENT,
     .alternate = true,
     .system = SYSTEM_FIRST_USER,
     .system_open = "",
     .system_close = "\n\n",
     .turns = {[CHAT_USER] = {GEMMA("user")}, [CHAT_ASSISTANT] = {GEMMA("model")}}},
    {.name = "phi3.5",
     .has = {"{%ifmessage['role']=='system'andmessage['content']%}{{'<|system|>\\n'+message['content']+'<|"
             "end|>\\n'}}",
             "{{'<|user|>\\n'+message['content']+'<|end|>\\n'}}",
             "{{'<|assistant|>\\n'+message['content']+'<|end|>\\n'}}", "{%else%}{{eos_token}}{%endif%}"},
     .finish = EOS,
     .no_empty_system = true,
     .turns = {{PHI3("system")}, {PHI3("user")}, {PHI3("assistant")}}},
    {.name = "phi3",
     .has = {"{%ifmessage['role']=='system'%}{{'<|system|>\\n'+message['content']+'<|end|>\\n'}}",
             "{{'<|user|>\\n'+message['content']+'<|end|>\\n'}}",
             "{{'<|assistant|>\\n'+message['content']+'<|end|>\\n'}}", "{%else%}{{eos_token}}{%endif%}"},
     .finish = EOS,
     .turns = {{PHI3("system")}, {PHI3("user")}, {PHI3("assistant")}}},
    {.name = "phi4",
     .has = {"{{'<|im_start|>system<|im_sep|>'+message['content']+'<|im_end|>'}}",
             "{{'<|im_start|>user<|im_sep|>'+message['content']+'<|im_end|>'}}",
             "{{'<|im_start|>assistant<|im_sep|>'+message['content']+'<|im_end|>'}}"},
     .turns = {{PHI4("system")}, {PHI4("user")}, {PHI4("assistant")}}},
    {.name = "zephyr",
     .has = {"{{'<|user|>\\n'+message['content']+eos_token}}",
             "{{'<|system|>\\n'+message['content']+eos_token}}",
             "{{'<|assistant|>\\n'+message['content']+eos_token}}",
             "{%ifloop.lastandadd_generation_prompt%}{{'<|assistant|>'}}"},
     .turns = {{ZEPHYR("system")}, {ZEPHYR("user")}, {ZEPHYR("assistant")}}},
    {.name = "mistral-v1",
     .has = {"' [INST] '+system_message+'\\n\\n'+message['content']+' [/INST]'",
             "' [INST] '+message['content']+' [/INST]'", "{{' '+message['content']+eos_token}}",
             "{%ifloop.firstandsystem_messageisdefined%}"},
     .bos = true,
     .alternate = true,
     .system = SYSTEM_FIRST_USER,
     .system_open = "",
     .system_close = "\n\n",
     .turns = {[CHAT_USER] = {" [INST] ", "", "", " [/INST]"}, [CHAT_ASSISTANT] = {"", " ", EOS, ""}}},
    {.name = "mistral-v3",
     .has = {"'[INST] '+system_message+'\\n\\n'+message['content']+'[/INST]'",
             "'[INST] '+message['content']+'[/INST]'", "{{' '+message['content']|trim+eos_token}}",
             "{%ifloop.lastandsystem_messageisdefined%}"},
     .bos = true,
     .alternate = true,
     .trim = TRIM_ASSISTANT,
     .system = SYSTEM_LAST_USER,
     .system_open = "",
     .system_close = "\n\n",
     .turns = {[CHAT_USER] = {"[INST] ", "", "", "[/INST]"}, [CHAT_ASSISTANT] = {"", " ", EOS, ""}}},
    {.name = "mistral-nemo",
     .has = {"'[INST]'+system_message+'\\n\\n'+message['content']+'[/INST]'",
             "'[INST]'+message['content']+'[/INST]'", "{{message['content']+eos_token}}",
             "{%ifloop.lastandsystem_messageisdefined%}"},
     .bos = true,
     .alternate = true,
     .system = SYSTEM_LAST_USER,
     .system_open = "",
     .system_close = "\n\n",
     .turns = {[CHAT_USER] = {"[INST]", "", "", "[/INST]"}, [CHAT_ASSISTANT] = {"", "", EOS, ""}}},
    {.name = "mistral-first",
     .has = {"{{bos_token}}", "{{'[INST] '+message['content']+' [/INST]'}}",
             "{{message['content']+eos_token}}"},
     .lacks = {"system"},
     .bos = true,
     .alternate = true,
     .turns = {[CHAT_USER] = {"[INST] ", "", "", " [/INST]"}, [CHAT_ASSISTANT] = {"", "", EOS, ""}}},
    {.name = "alpaca",
     .has = {"'### Instruction:\\n'+message['content']+'\\n\\n'",
             "'### Response:\\n'+message['content']+eos_token+'\\n\\n'", "{{'### Response:\\n'}}",
             "{{messages[0]['content']+'\\n\\n'}}"},
     .system_before = "{%else%}{{'",
     .system_after = "\\n\\n'}}",
     .usual_system = ALPACA_SYSTEM,
     .bos = true,
     .alternate = true,
     .input = "\n\n### Input:\n",
     .turns = {[CHAT_SYSTEM] = {"", "", "", "\n\n"},
               [CHAT_USER] = {"### Instruction:\n", "", "", "\n\n"},
               [CHAT_ASSISTANT] = {"### Response:\n", "", EOS, "\n\n"}}},
    {.name = "plain", /* no program is */
     .bos = true,
     .turns = {{"", "", "", ""}, {"", "", "", ""}, {"", "", EOS, ""}, {"", "", "", ""}}},
};
enum { FORMATS = sizeof formats / sizeof *formats };

/* ---- Finding ---- */

const char *chat_template_name_at(int index) {
  return index >= 0 && index < FORMATS ? formats[index].name : NULL;
}

const char *chat_template_input(const struct chat_template *chat) {
  return chat->format->input != NULL ? chat->format->input : "\n";
}

struct chat_answer chat_template_answer(const struct chat_template *chat) {
  const struct turn *turn = &chat->format->turns[CHAT_ASSISTANT];
  return (struct chat_answer){turn->lead, strstr(turn->end, EOS) == NULL ? turn->end : NULL};
}

static bool fits(const struct chat_format *format, const char *program) {
  if (format->has[0] == NULL) return false;
  for (int i = 0; i < MARKS; i++) {
    if (format->has[i] != NULL && strstr(program, format->has[i]) == NULL) return false;
    if (format->lacks[i] != NULL && strstr(program, format->lacks[i]) != NULL) return false;
  }
  return true;
}

static const char *list_names(char *text, size_t size) {
  size_t length = 0;
  for (int i = 0; i < FORMATS && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, "%s%s", i > 0 ? ", " : "", formats[i].name);
  return text;
}

static neap_status copy_text(const char *text, char **out) {
  *out = text != NULL ? strdup(text) : NULL;
  if (text != NULL) RETURN_IF_NULL(*out);
  return NEAP_OK;
}

static const char usual_date[] = "26 Jul 2024"; /* of Llama 3.1 and what follows it */

static bool tells_date(const struct chat_format *format) {
  return format->head != NULL && strstr(format->head, DATE) != NULL;
}

static neap_status make(const struct chat_format *format, struct chat_template **out) {
  *out = calloc(1, sizeof **out);
  RETURN_IF_NULL(*out);
  **out = (struct chat_template){.format = format, .name = format->name, .bos = format->bos};
  return NEAP_OK;
}

/* Returns `status`; if it is a failure, frees the template. */
static neap_status finish(neap_status status, struct chat_template **out) {
  if (status != NEAP_OK) {
    chat_template_free(*out);
    *out = NULL;
  }
  return status;
}

/* Reads the details of a program that its row does not have. */
static neap_status read_details(struct chat_template *chat, const char *program) {
  const struct chat_format *format = chat->format;
  chat->bos = strstr(program, "bos_token") != NULL && format->bos;
  if (!format->bos) chat->bos = strncmp(program, "{{bos_token}}", 13) == 0;
  if (tells_date(format)) TRY(chat_jinja_literal(program, "{%setdate_string='", "'", &chat->date));
  if (tells_date(format) && chat->date == NULL) TRY(copy_text(usual_date, &chat->date));
  if (format->system_before == NULL) return NEAP_OK;
  return chat_jinja_literal(program, format->system_before, format->system_after, &chat->system);
}

neap_status chat_template_find(const char *jinja, const char *file, struct chat_template **out) {
  char *program, names[512];
  *out = NULL;
  TRY(chat_jinja_normalise(jinja, &program));
  const struct chat_format *format = formats;
  while (format < formats + FORMATS && !fits(format, program)) format++;
  neap_status status;
  if (format == formats + FORMATS)
    status =
        neap_fail(NEAP_UNSUPPORTED, "%s: its chat template is unknown; choose one with --template NAME: %s",
                  file, list_names(names, sizeof names));
  else
    status = make(format, out);
  if (status == NEAP_OK) status = read_details(*out, program);
  free(program);
  return finish(status, out);
}

neap_status chat_template_named(const char *name, struct chat_template **out) {
  char names[512];
  *out = NULL;
  for (int i = 0; i < FORMATS; i++)
    if (strcmp(formats[i].name, name) == 0) {
      TRY(make(&formats[i], out));
      neap_status status = copy_text(formats[i].usual_system, &(*out)->system);
      if (status == NEAP_OK && tells_date(&formats[i])) status = copy_text(usual_date, &(*out)->date);
      return finish(status, out);
    }
  return neap_fail(NEAP_INVALID_ARGUMENT,
                   "template '%s': this chat template does not exist; the names are %s", name,
                   list_names(names, sizeof names));
}

void chat_template_free(struct chat_template *chat) {
  if (chat == NULL) return;
  free(chat->system);
  free(chat->date);
  free(chat);
}

void chat_text_free(struct chat_text *text) {
  vector_free(&text->text);
  vector_free(&text->spans);
}

/* ---- Rendering ---- */

struct rendering {
  const struct chat_template *chat;
  const struct chat_format *format;
  const struct chat_message *messages, *system; /* the system's that is no turn; NULL: none exists */
  size_t count, first;                          /* messages, and the first with a turn */
  size_t last_query;                            /* of Qwen3: the last message of the user that is no tool's */
  struct chat_ends ends;
  struct chat_text *out;
};

/* Bytes, borrowed. */
struct piece {
  const char *bytes;
  size_t length;
};

static neap_status put(struct rendering *r, const char *bytes, size_t length) {
  TRY(vector_reserve(&r->out->text, r->out->text.count + length));
  if (length > 0) memcpy(r->out->text.data + r->out->text.count, bytes, length);
  r->out->text.count += length;
  return NEAP_OK;
}

static neap_status put_text(struct rendering *r, const char *text) {
  return text != NULL ? put(r, text, strlen(text)) : NEAP_OK;
}

/* Writes a text of the row, with its signs replaced. */
static neap_status put_row(struct rendering *r, const char *text) {
  for (; text != NULL && *text != '\0'; text++) {
    const size_t plain = strcspn(text, BOS EOS DATE);
    TRY(put(r, text, plain));
    text += plain;
    if (*text == '\0') return NEAP_OK;
    TRY(put_text(r, *text == *BOS ? r->ends.bos : *text == *EOS ? r->ends.eos : r->chat->date));
  }
  return NEAP_OK;
}

/* Returns true for the characters that Python's str.strip() removes. */
static bool is_space(uint32_t c) {
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

static struct piece trim_begin(struct piece p) {
  uint32_t code;
  while (p.length > 0) {
    const int bytes = utf8_decode(p.bytes, p.length, &code);
    if (bytes == 0 || !is_space(code)) break;
    p.bytes += bytes;
    p.length -= (size_t)bytes;
  }
  return p;
}

static struct piece trim_end(struct piece p) {
  while (p.length > 0) {
    size_t last = p.length - 1;
    uint32_t code;
    while (last > 0 && ((unsigned char)p.bytes[last] & 0xC0) == 0x80) last--;
    if ((size_t)utf8_decode(p.bytes + last, p.length - last, &code) != p.length - last || !is_space(code))
      break;
    p.length = last;
  }
  return p;
}

static struct piece trim(struct piece p) { return trim_end(trim_begin(p)); }

static struct piece strip_lines(struct piece p, bool begin, bool end) {
  while (begin && p.length > 0 && *p.bytes == '\n') p.bytes++, p.length--;
  while (end && p.length > 0 && p.bytes[p.length - 1] == '\n') p.length--;
  return p;
}

/* Returns the first or last place of a word in a piece; NULL: none. */
static const char *find_word(struct piece p, const char *word, bool last) {
  const size_t length = strlen(word);
  const char *found = NULL;
  for (size_t i = 0; i + length <= p.length && (found == NULL || last); i++)
    if (memcmp(p.bytes + i, word, length) == 0) found = p.bytes + i;
  return found;
}

static struct piece from(struct piece p, const char *at) {
  return (struct piece){at, p.length - (size_t)(at - p.bytes)};
}

/* Writes the assistant's content as Qwen3 does: its thoughts stay only after the last question. */
static neap_status put_thinking(struct rendering *r, size_t index, struct piece content) {
  static const char end[] = "</think>", begin[] = "<think>";
  struct piece thought = {"", 0};
  const char *first = find_word(content, end, false);
  if (first != NULL) {
    thought = strip_lines((struct piece){content.bytes, (size_t)(first - content.bytes)}, false, true);
    const char *open = find_word(thought, begin, true);
    if (open != NULL) thought = from(thought, open + strlen(begin));
    thought = strip_lines(thought, true, false);
    content = strip_lines(from(content, find_word(content, end, true) + strlen(end)), true, false);
  }
  if (index <= r->last_query || (index + 1 < r->count && thought.length == 0))
    return put(r, content.bytes, content.length);
  thought = strip_lines(thought, true, true);
  content = strip_lines(content, true, false);
  TRY(put_text(r, "<think>\n"));
  TRY(put(r, thought.bytes, thought.length));
  TRY(put_text(r, "\n</think>\n\n"));
  return put(r, content.bytes, content.length);
}

/* Writes a string of JSON, as Python's json.dumps does without ensure_ascii. */
static neap_status put_json(struct rendering *r, struct piece p) {
  static const char escaped[] = "\"\\\n\r\t\b\f", letters[] = "\"\\nrtbf";
  TRY(put_text(r, "\""));
  for (size_t i = 0; i < p.length; i++) {
    const char c = p.bytes[i], *at = c != '\0' ? strchr(escaped, c) : NULL;
    char code[8];
    if (at != NULL)
      snprintf(code, sizeof code, "\\%c", letters[at - escaped]);
    else
      snprintf(code, sizeof code, (unsigned char)c < 0x20 ? "\\u%04x" : "%c", c);
    TRY(put_text(r, code));
  }
  return put_text(r, "\"");
}

static bool system_before(const struct rendering *r, size_t index) {
  const enum system_place place = r->format->system;
  return r->system != NULL && r->messages[index].role == CHAT_USER &&
         ((place == SYSTEM_FIRST_USER && index == r->first) ||
          (place == SYSTEM_LAST_USER && index + 1 == r->count));
}

static neap_status put_content(struct rendering *r, size_t index) {
  const struct chat_message *m = &r->messages[index];
  const enum trimming trimming = r->format->trim;
  struct piece content = {m->content, m->length};
  const bool head = system_before(r, index), whole = head && trimming == TRIM_WITH_HEAD;
  if (trimming == TRIM_CONTENT || (trimming == TRIM_ASSISTANT && m->role == CHAT_ASSISTANT) ||
      (trimming == TRIM_WITH_HEAD && !head))
    content = trim(content);
  if (m->role == CHAT_ASSISTANT && r->format->thinks) return put_thinking(r, index, content);
  if (m->role == CHAT_TOOL && r->format->json_tools)
    return put_json(r, (struct piece){m->content, m->length});
  const size_t begin = r->out->text.count;
  if (head) {
    TRY(put_row(r, r->format->system_open));
    TRY(put(r, r->system->content, r->system->length));
    TRY(put_row(r, r->format->system_close));
  }
  TRY(put(r, content.bytes, content.length));
  if (whole) /* which begins with no space */
    r->out->text.count =
        begin + trim_end((struct piece){r->out->text.data + begin, r->out->text.count - begin}).length;
  return NEAP_OK;
}

static bool is_tool(const struct rendering *r, size_t index) {
  return index >= r->first && index < r->count && r->messages[index].role == CHAT_TOOL;
}

static neap_status put_turn(struct rendering *r, size_t index) {
  const struct chat_message *m = &r->messages[index];
  const struct turn *turn = &r->format->turns[m->role];
  if (m->role == CHAT_SYSTEM && m->length == 0 && r->format->no_empty_system) return NEAP_OK;
  if (m->role == CHAT_TOOL && (index == 0 || !is_tool(r, index - 1))) TRY(put_row(r, r->format->tools_open));
  TRY(put_row(r, turn->before));
  const size_t begin = r->out->text.count;
  TRY(put_row(r, turn->lead));
  TRY(put_content(r, index));
  TRY(put_row(r, turn->end));
  if (m->role == CHAT_ASSISTANT)
    TRY(vector_push(&r->out->spans, (struct chat_span){begin, r->out->text.count}));
  TRY(put_row(r, turn->after));
  return m->role == CHAT_TOOL && !is_tool(r, index + 1) ? put_row(r, r->format->tools_close) : NEAP_OK;
}

/* Writes the text before the first turn. */
static neap_status put_head(struct rendering *r) {
  if (r->chat->bos) TRY(put_row(r, BOS));
  if (r->format->system == SYSTEM_HEAD) {
    TRY(put_row(r, r->format->head));
    if (r->system != NULL) {
      const struct piece text = trim((struct piece){r->system->content, r->system->length});
      TRY(put(r, text.bytes, text.length));
    }
    return put_row(r, r->format->head_after);
  }
  if (r->chat->system == NULL || r->messages[0].role == CHAT_SYSTEM) return NEAP_OK;
  const struct turn *turn = &r->format->turns[CHAT_SYSTEM];
  TRY(put_row(r, turn->before));
  TRY(put_text(r, r->chat->system));
  TRY(put_row(r, turn->end));
  return put_row(r, turn->after);
}

static neap_status check_roles(const struct rendering *r) {
  const bool own = r->format->system == SYSTEM_TURN && r->messages[0].role == CHAT_SYSTEM;
  size_t place = 0;
  for (size_t i = r->first; i < r->count; i++) {
    const enum chat_role role = r->messages[i].role;
    RETURN_IF(r->format->turns[role].before == NULL, NEAP_UNSUPPORTED,
              "message %zu: the chat template '%s' has no turn for '%s'", i + 1, r->chat->name,
              chat_role_names[role]);
    if (!r->format->alternate || (own && i == 0)) continue;
    const enum chat_role wanted = place++ % 2 == 0 ? CHAT_USER : CHAT_ASSISTANT;
    RETURN_IF(role != wanted, NEAP_INVALID_ARGUMENT,
              "message %zu: its role is '%s'; in the chat template '%s' user and assistant take turns, and "
              "this one must be '%s'",
              i + 1, chat_role_names[role], r->chat->name, chat_role_names[wanted]);
  }
  return NEAP_OK;
}

static bool is_response(const struct chat_message *m) {
  static const char begin[] = "<tool_response>", end[] = "</tool_response>";
  return m->length >= strlen(end) && memcmp(m->content, begin, strlen(begin)) == 0 &&
         memcmp(m->content + m->length - strlen(end), end, strlen(end)) == 0;
}

static size_t last_query(const struct chat_message *messages, size_t count) {
  for (size_t i = count; i-- > 0;)
    if (messages[i].role == CHAT_USER && !is_response(&messages[i])) return i;
  return count - 1;
}

neap_status chat_render(const struct chat_template *chat, const struct chat_message *messages, size_t count,
                        bool generate, struct chat_ends ends, struct chat_text *out) {
  RETURN_IF(count == 0, NEAP_INVALID_ARGUMENT, "conversation: it has no messages");
  struct rendering r = {
      .chat = chat, .format = chat->format, .messages = messages, .count = count, .ends = ends};
  r.out = out;
  out->text.count = out->spans.count = 0;
  if (messages[0].role == CHAT_SYSTEM && r.format->system != SYSTEM_TURN) r.system = messages, r.first = 1;
  if (r.format->thinks) r.last_query = last_query(messages, count);
  TRY(check_roles(&r));
  TRY(put_head(&r));
  for (size_t i = r.first; i < count; i++) TRY(put_turn(&r, i));
  return put_row(&r, generate ? r.format->turns[CHAT_ASSISTANT].before : r.format->finish);
}
