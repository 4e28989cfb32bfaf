#include "template/chat_rows.h"

/* clang-format off */

/* Parts of programs. A first message of the system that has no turn of its own is left out by `off`. */
#define EACH         "{% for m in messages %}"
#define OFF          "{% set off = 1 if messages[0].role == 'system' else 0 %}"
#define EACH_OFF     "{% for m in messages[off:] %}"
#define END          "{% endfor %}"
#define ENDIF        "{% endif %}"
#define ELSE         "{% else %}"
#define BOS          "{{ bos_token }}"
#define EOS          "{{ eos_token }}"
#define ROLE         "{{ m.role }}"
#define CONTENT      "{{ m.content }}"
#define TRIMMED      "{{ m.content | trim }}"
#define IF(test)     "{% if " test " %}"
#define ELIF(test)   "{% elif " test " %}"
#define IS(role)     "m.role == '" role "'"
#define OF_THREE     "m.role in ['system', 'user', 'assistant']"
#define PROMPT(text) IF("add_generation_prompt") text ENDIF
#define IN_TURNS                                                                                             \
  IF("(m.role == 'user') != (loop.index0 % 2 == 0)")                                                         \
  "{{ raise_exception('Conversation roles must alternate user/assistant/user/assistant/...') }}" ENDIF

#define CHATML(role, content) "<|im_start|>" role "\n" content "<|im_end|>\n"
#define CHATML_PROMPT         PROMPT("<|im_start|>assistant\n")
/* Tools' messages that follow each other are one turn of the user. */
#define QWEN_TOOLS                                                                                           \
  IF(IS("tool"))                                                                                             \
  IF("loop.first or loop.previtem.role != 'tool'") "<|im_start|>user" ENDIF                                  \
  "{{ '\\n<tool_response>\\n' }}" CONTENT "\n</tool_response>"                                               \
  IF("loop.last or loop.nextitem.role != 'tool'") "<|im_end|>\n" ENDIF                                       \
  ELSE
#define LLAMA3(role, content) "<|start_header_id|>" role "<|end_header_id|>\n\n" content "<|eot_id|>"
#define LLAMA3_PROMPT         PROMPT("<|start_header_id|>assistant<|end_header_id|>\n\n")
#define GEMMA(content)                                                                                       \
  "<start_of_turn>{{ 'model' if m.role == 'assistant' else m.role }}\n" content "<end_of_turn>\n"
#define GEMMA_PROMPT          PROMPT("<start_of_turn>model\n")
#define PHI3(test)                                                                                           \
  EACH IF(OF_THREE test) "<|" ROLE "|>\n" CONTENT "<|end|>\n" ENDIF END                                      \
  IF("add_generation_prompt") "<|assistant|>\n" ELSE EOS ENDIF
#define NO_OTHERS ELSE "{{ raise_exception('Only user and assistant roles are supported!') }}" ENDIF
/* Mistral's template: the texts around a user's content, the test for the content that takes the system's
 * text, and an answer. */
#define MISTRAL(open, close, place, answer)                                                                  \
  OFF BOS EACH_OFF IN_TURNS                                                                                  \
  IF(IS("user")) open                                                                                        \
  IF("off and loop." place) "{{ messages[0].content + '\\n\\n' }}" ENDIF                                     \
  CONTENT close                                                                                              \
  ELIF(IS("assistant")) answer EOS NO_OTHERS END

const struct chat_row chat_rows[CHAT_ROWS] = {
    {"chatml", EACH CHATML(ROLE, CONTENT) END CHATML_PROMPT},
    {"qwen2.5",
     IF("messages[0].role != 'system'")
     CHATML("system", "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.") ENDIF
     EACH QWEN_TOOLS CHATML(ROLE, CONTENT) ENDIF END CHATML_PROMPT},
    {"qwen3", /* thoughts stay behind the last question, that is no tool's answer */
     "{% set ns = namespace(query=messages | length - 1, found=false) %}"
     "{% for m in messages[::-1] %}"
     IF("not ns.found and m.role == 'user' and not "
        "(m.content.startswith('<tool_response>') and m.content.endswith('</tool_response>'))")
     "{% set ns.found = true %}{% set ns.query = messages | length - 1 - loop.index0 %}" ENDIF END
     EACH QWEN_TOOLS
     "{% set content = m.content %}{% set thought = '' %}"
     IF("m.role == 'assistant' and '</think>' in content")
     "{% set thought = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}"
     "{% set content = content.split('</think>')[-1].lstrip('\\n') %}" ENDIF
     IF("m.role == 'assistant' and loop.index0 > ns.query and (loop.last or thought)")
     CHATML("assistant", "<think>\n{{ thought.strip('\\n') }}\n</think>\n\n{{ content.lstrip('\\n') }}")
     ELSE CHATML(ROLE, "{{ content }}") ENDIF ENDIF END CHATML_PROMPT},
    {"qwen3-2507", EACH QWEN_TOOLS CHATML(ROLE, CONTENT) ENDIF END CHATML_PROMPT},
    {"llama2",
     OFF EACH_OFF IN_TURNS
     "{% set content = m.content %}"
     IF("off and loop.first")
     "{% set content = '<<SYS>>\\n' + messages[0].content + '\\n<</SYS>>\\n\\n' + content %}" ENDIF
     IF(IS("user")) BOS "[INST] {{ content.strip() }} [/INST]"
     ELIF(IS("assistant")) " {{ content.strip() }} " EOS ENDIF END},
    {"llama3", BOS EACH LLAMA3(ROLE, TRIMMED) END LLAMA3_PROMPT},
    {"llama3.1",
     OFF BOS
     LLAMA3("system", "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"
                      "{{ messages[0].content | trim if off }}")
     EACH_OFF IF(IS("tool")) LLAMA3("ipython", "{{ m.content | tojson }}")
     ELSE LLAMA3(ROLE, TRIMMED) ENDIF END LLAMA3_PROMPT},
    {"gemma",
     BOS EACH
     IF("loop.first and m.role == 'system'") "{{ raise_exception('System role not supported') }}" ENDIF
     IN_TURNS GEMMA(TRIMMED) END GEMMA_PROMPT},
    {"gemma3",
     OFF BOS EACH_OFF IN_TURNS
     GEMMA(IF("off and loop.first") "{{ messages[0].content + '\\n\\n' }}" ENDIF TRIMMED) END GEMMA_PROMPT},
    {"phi3.5", PHI3(" and (m.role != 'system' or m.content)")},
    {"phi3", PHI3("")},
    {"phi4",
     EACH IF(OF_THREE) "<|im_start|>" ROLE "<|im_sep|>" CONTENT "<|im_end|>" ENDIF END
     PROMPT("<|im_start|>assistant<|im_sep|>")},
    {"zephyr", EACH IF(OF_THREE) "<|" ROLE "|>\n" CONTENT EOS "\n" ENDIF END PROMPT("<|assistant|>\n")},
    {"mistral-v1", MISTRAL(" [INST] ", " [/INST]", "first", " " CONTENT)},
    {"mistral-v3", MISTRAL("[INST] ", "[/INST]", "last", " " TRIMMED)},
    {"mistral-nemo", MISTRAL("[INST]", "[/INST]", "last", CONTENT)},
    {"mistral-first",
     BOS EACH IN_TURNS IF(IS("user")) "[INST] " CONTENT " [/INST]"
     ELIF(IS("assistant")) CONTENT EOS NO_OTHERS END},
    {"alpaca",
     OFF BOS
     "{{ messages[0].content if off else 'Below is an instruction that describes a task. Write a response "
     "that appropriately completes the request.' }}{{ '\\n\\n' }}"
     EACH_OFF IF(IS("user")) "### Instruction:\n" CONTENT "\n\n"
     ELIF(IS("assistant")) "### Response:\n" CONTENT EOS "\n\n" ENDIF END PROMPT("### Response:\n")},
    {"plain", BOS EACH CONTENT IF(IS("assistant")) EOS ENDIF END}, /* of no model's program */
};
