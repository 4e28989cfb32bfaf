/* neap graph */
#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

#include "shared/failure.h"
#include "shared/format.h"
#include "shared/source.h"
#include "verbs/verbs.h"

struct settings {
  struct arguments a;
  const char *out;
};

const neap_setting graph_options[] = {
    {"o", "GRAPH.json", .help = "the file to write", .kind = NEAP_SETTING_TEXT,
     .offset = offsetof(struct settings, out), .flags = NEAP_SETTING_PATH},
    {0},
};

int run_graph(const struct verb *verb, int count, char **arguments) {
  struct settings s = {0};
  if (!read_arguments(verb, count, arguments, &s, &s.a) || take_model_file(verb, &s.a) != EXIT_DONE)
    return EXIT_USAGE;
  if (s.a.operands.count > 0) return report_no_model(verb, &s.a);
  if (s.a.options.model == NULL) return report_usage(verb, "--model is missing");
  if (s.out == NULL) return report_usage(verb, "-o is missing: the file to write");
  if (check_output(verb, s.out, s.a.json) != EXIT_DONE) return EXIT_USAGE;
  neap_step *step;
  int result = source_open(verb, &s.a, NULL, &step);
  if (result != EXIT_DONE) return result;
  const neap_status status = neap_step_write(step, s.out);
  neap_step_info info;
  neap_step_describe(step, &info);
  if (status != NEAP_OK)
    result = report_failure(verb, status);
  else if (s.a.json)
    result = print_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "graph", info.name, "batch",
                                  (json_int_t)s.a.options.shape.batch, "tensors", (json_int_t)info.tensors,
                                  "nodes", (json_int_t)info.nodes, "resident_bytes",
                                  (json_int_t)info.resident_bytes, "base_cost", info.base_cost));
  else if (s.out != standard_output)
    printf("%s: %s with batch %lld, %d nodes, %d tensors, %s resident\n", s.out, info.name,
           (long long)s.a.options.shape.batch, info.nodes, info.tensors,
           bytes_text(info.resident_bytes).text);
  neap_step_free(step);
  return result;
}
