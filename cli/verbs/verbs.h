/* The verbs of the command: their functions, their own options, and the table of all. */
#ifndef NEAP_CLI_VERBS_H
#define NEAP_CLI_VERBS_H

#include "shared/options.h"

/* Runs a verb with the arguments behind it. Returns an exit status. */
typedef int verb_function(const struct verb *verb, int count, char **arguments);
verb_function run_train, run_finetune, run_lr, run_evaluate, run_replay, run_predict, run_export,
    run_generate, run_chat, run_translate, run_plan, run_curve, run_show, run_completion, run_manual,
    run_check, run_graph, run_layout, run_cache, run_bench, run_data, run_models, run_planners, run_operators;
extern const neap_setting train_options[], finetune_options[], lr_options[], replay_options[],
    predict_options[], export_options[], generate_options[], chat_options[], translate_options[],
    plan_options[], curve_options[], show_options[], graph_options[], layout_options[], cache_options[],
    bench_options[], data_options[];

/* Returns verb `index`, from 0, in the order of the help; NULL past the last. */
const struct verb *verb_at(int index);

#endif
