/* neap graph */
#include <stddef.h>

#include "cli.h"

struct settings {
  struct source source;
  const char *out;
  bool json;
};

const struct option graph_options[] = {
    SOURCE_OPTIONS(struct settings),
    {"-o", "GRAPH.json", "the file to write", OPTION_TEXT, offsetof(struct settings, out), 0, 0},
    {"--json", NULL, "one JSON object on standard output", OPTION_SWITCH, offsetof(struct settings, json), 0,
     0},
    {0},
};

int run_graph(const struct verb *verb, int count, char **arguments) {
  struct settings s = {.source = SOURCE_DEFAULTS};
  struct operands operands;
  if (!read_arguments(verb, count, arguments, &s, &operands, NULL)) return EXIT_USAGE;
  if (operands.count > 0) return report_usage(verb, "%s: there is no use for it", operands.values[0]);
  if (s.source.model == NULL) return report_usage(verb, "--model is missing");
  if (s.out == NULL) return report_usage(verb, "-o is missing: the file to write");
  if (check_output(verb, s.out, s.json) != EXIT_DONE) return EXIT_USAGE;
  neap_step *step;
  int result = source_open(verb, &s.source, NULL, &step);
  if (result != EXIT_DONE) return result;
  const neap_status status = neap_step_write(step, s.out);
  neap_step_info info;
  neap_step_describe(step, &info);
  if (status != NEAP_OK)
    result = report_failure(verb, status);
  else if (s.json)
    result = print_json(json_pack("{s:s, s:I, s:I, s:I, s:I, s:f}", "graph", info.name, "batch",
                                  (json_int_t)s.source.batch, "tensors", (json_int_t)info.tensors, "nodes",
                                  (json_int_t)info.nodes, "resident_bytes", (json_int_t)info.resident_bytes,
                                  "base_cost", info.base_cost));
  else if (s.out != standard_output)
    printf("%s: %s with batch %lld, %d nodes, %d tensors, %s resident\n", s.out, info.name,
           (long long)s.source.batch, info.nodes, info.tensors, bytes_text(info.resident_bytes).text);
  neap_step_free(step);
  return result;
}
