/* Networks of the zoo at the sizes that were published: steps of f32 as this machine's backend runs them,
 * workspaces included, SGD without momentum, costs by the roofline. Published GB and MB are taken as powers
 * of ten, the stricter reading. */
#include <stdio.h>

#include "papers.h"

static const double gigabyte = 1e9, megabyte = 1e6;

struct network {
  neap_step *step;
  neap_step_info info;
  uint64_t keep_all;    /* peak of keeping everything, resident bytes included */
  double forward_share; /* of the step's cost */
};

static neap_status open_network(const char *name, int64_t batch, struct network *out) {
  const neap_model_options shape = {.batch = batch};
  const neap_session_options options = {.threads = 2};
  neap_model *model;
  neap_graph *graph;
  struct outcome keep_all;
  *out = (struct network){0};
  TRY(neap_model_open(name, &model));
  neap_status status = neap_model_build(model, &shape, &graph);
  neap_model_close(model);
  TRY(status);
  status = neap_step_from_graph(graph, &options, &out->step);
  neap_graph_free(graph);
  if (status != NEAP_OK) return status;
  neap_step_describe(out->step, &out->info);
  double forward = 0;
  for (int32_t v = 0; v < out->step->node_count; v++)
    if (out->step->nodes[v].pass == NEAP_PASS_FORWARD) forward += out->step->nodes[v].cost;
  out->forward_share = forward / out->info.base_cost;
  TRY(plan_checked(out->step, NEAP_BUDGET_MAX, "keep-all", &keep_all));
  out->keep_all = keep_all.peak;
  return NEAP_OK;
}

/* Opens a network and plans it in `budget` bytes, or this many above the resident ones. */
static neap_status plan_network(const struct report *report, const char *model, int64_t batch, double budget,
                                bool above_resident, struct network *network, struct outcome *out) {
  progress(report, "  planning %s, batch %lld ...", model, (long long)batch);
  neap_status status = open_network(model, batch, network);
  if (status == NEAP_OK)
    status = plan_checked(
        network->step, (uint64_t)budget + (above_resident ? network->info.resident_bytes : 0), "auto", out);
  neap_step_free(network->step);
  network->step = NULL;
  return status;
}

/* The column beside a peak, which is the least that was found where the budget is not met. */
static void print_overhead(const struct report *report, const struct outcome *outcome) {
  if (outcome->fits)
    print_row(report, " %+7.1f %%", 100 * outcome->overhead);
  else
    print_row(report, " %9s", "least");
}

static double smaller(double a, double b) { return a < b ? a : b; }

/* ---- Kusumoto et al. 2019, table 1 ---- */

/* What is asked of a plan: this much of the published peak. The first layers of VGG and U-Net alone fill half
 * of theirs. */
static const double usual_share = 0.6, large_layer_share = 0.8;

neap_status print_kusumoto(struct report *report) {
  static const struct {
    const char *model;
    int64_t batch;
    double vanilla, chen, approximate, exact; /* GB, parameters included */
    bool large_layers;
  } rows[] = {{"pspnet", 2, 9.4, 4.0, 2.7, 2.8, false},     {"unet", 8, 9.1, 7.4, 5.0, 4.7, true},
              {"resnet50", 96, 8.9, 3.7, 3.4, 3.4, false},  {"resnet152", 48, 9.2, 2.4, 2.3, 2.3, false},
              {"vgg19", 64, 7.0, 4.7, 4.5, 4.5, true},      {"densenet161", 32, 8.5, 1.8, 1.6, 1.7, false},
              {"googlenet", 256, 8.5, 6.5, 5.2, 5.2, false}};
  printf(
      "  Peak in GB, parameters included; published: memory-centric, which runs nearly the whole forward\n"
      "  pass again. Met: within the goal (a share of the lower of the published peaks of the approximate\n"
      "  and the exact planner), resident bytes, gradients and workspaces included, at no more than a\n"
      "  forward pass more.\n\n"
      "  %-12s %5s | %8s %6s %6s %6s | %8s %11s %6s %9s %8s %8s\n",
      "network", "batch", "keep all", "Chen", "approx", "exact", "keep all", "goal", "Neap", "overhead",
      "forward", "seconds");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const double share = rows[i].large_layers ? large_layer_share : usual_share,
                 goal = share * smaller(rows[i].approximate, rows[i].exact);
    struct network network;
    struct outcome ours;
    TRY(plan_network(report, rows[i].model, rows[i].batch, goal * gigabyte, false, &network, &ours));
    print_row(report, "  %-12s %5lld | %8.1f %6.1f %6.1f %6.1f | %8.2f %.1f x = %.2f %6.2f", rows[i].model,
              (long long)rows[i].batch, rows[i].vanilla, rows[i].chen, rows[i].approximate, rows[i].exact,
              (double)network.keep_all / gigabyte, share, goal, (double)ours.peak / gigabyte);
    print_overhead(report, &ours);
    print_row(report, " %6.1f %% %8.1f   %s\n", 100 * network.forward_share, ours.seconds,
              verdict(report, ours.fits && ours.overhead <= network.forward_share));
  }
  return NEAP_OK;
}

/* ---- Feng and Huang 2018 ---- */

neap_status print_feng_huang(struct report *report) {
  static const struct {
    const char *model;
    int64_t batch;
    double regular, theirs, overhead; /* MB of feature maps; share of the time */
    bool large_layers;
  } rows[] = {{"vgg19", 64, 5189, 3565, 0.33, true},       {"resnet50", 64, 5323, 1973, 0.31, false},
              {"resnet152", 16, 2767, 526, 0.37, false},   {"densenet161", 16, 3751, 666, 0.36, false},
              {"densenet201", 16, 3146, 474, 0.53, false}, {"inception-v3", 32, 3074, 881, 0.29, false}};
  printf(
      "  Peak in MB without resident bytes (parameters, inputs); ours counts gradients and workspaces. Met:\n"
      "  within the goal, a share of the published peak, at no more than the published overhead.\n\n"
      "  %-12s %5s | %8s %6s %9s | %8s %12s %6s %9s %8s\n",
      "network", "batch", "keep all", "theirs", "overhead", "keep all", "goal", "Neap", "overhead",
      "seconds");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const double share = rows[i].large_layers ? large_layer_share : usual_share,
                 goal = share * rows[i].theirs;
    struct network network;
    struct outcome ours;
    TRY(plan_network(report, rows[i].model, rows[i].batch, goal * megabyte, true, &network, &ours));
    const uint64_t resident = network.info.resident_bytes;
    print_row(report, "  %-12s %5lld | %8.0f %6.0f %+7.0f %% | %8.0f %.1f x = %4.0f %6.0f", rows[i].model,
              (long long)rows[i].batch, rows[i].regular, rows[i].theirs, 100 * rows[i].overhead,
              (double)(network.keep_all - resident) / megabyte, share, goal, (double)ours.values / megabyte);
    print_overhead(report, &ours);
    print_row(report, " %8.1f   %s\n", ours.seconds,
              verdict(report, ours.fits && ours.overhead <= rows[i].overhead));
  }
  return NEAP_OK;
}

/* ---- MONeT, Shah et al. 2020 ---- */

neap_status print_monet(struct report *report) {
  static const struct {
    const char *model;
    int64_t batch;
    double regular, budget, overhead; /* GB, GB, share of the time */
  } rows[] = {{"resnet50", 184, 15.06, 8.01, 0.056},  {"resnet50", 184, 15.06, 6.00, 0.093},
              {"resnet50", 184, 15.06, 4.99, 0.120},  {"googlenet", 320, 14.93, 8.02, 0.084},
              {"googlenet", 320, 14.93, 6.01, 0.121}, {"googlenet", 320, 14.93, 4.99, 0.158},
              {"unet", 11, 14.32, 8.02, -0.001},      {"unet", 11, 14.32, 6.01, 0.050},
              {"unet", 11, 14.32, 5.01, 0.115},       {"vgg16", 176, 14.12, 7.88, -0.022},
              {"vgg16", 176, 14.12, 5.90, 0.054}};
  printf(
      "  Peak in GB, parameters included. Met: within the published peak at no more than the published\n"
      "  overhead; one below zero, where another kernel was faster than the usual one, counts as zero. "
      "Theirs\n"
      "  is time on a GPU, ours by the cost model. The images of their U-Net are not known here: ours are\n"
      "  572 x 572.\n\n"
      "  %-12s %5s | %8s %6s %9s | %8s %6s %9s %8s\n",
      "network", "batch", "keep all", "theirs", "overhead", "keep all", "Neap", "overhead", "seconds");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct network network;
    struct outcome ours;
    TRY(plan_network(report, rows[i].model, rows[i].batch, rows[i].budget * gigabyte, false, &network,
                     &ours));
    print_row(report, "  %-12s %5lld | %8.2f %6.2f %+7.1f %% | %8.2f %6.2f", rows[i].model,
              (long long)rows[i].batch, rows[i].regular, rows[i].budget, 100 * rows[i].overhead,
              (double)network.keep_all / gigabyte, (double)ours.peak / gigabyte);
    print_overhead(report, &ours);
    const double allowed = rows[i].overhead > 0 ? rows[i].overhead : 0;
    print_row(report, " %8.1f   %s\n", ours.seconds, verdict(report, ours.fits && ours.overhead <= allowed));
  }
  return NEAP_OK;
}

/* ---- Chen et al. 2016: depth ---- */

neap_status print_chen(struct report *report) {
  static const struct {
    int32_t layers;
    const char *model;
    double vanilla, theirs, overhead; /* GB of feature maps; 0: not published */
  } rows[] = {{50, "resnet-bottleneck-3-4-6-3", 0, 0, 0},
              {101, "resnet-bottleneck-3-4-23-3", 0, 0, 0},
              {200, "resnet-bottleneck-3-24-36-3", 0, 0, 0},
              {500, "resnet-bottleneck-8-60-90-8", 0, 0, 0},
              {992, "resnet-bottleneck-15-120-180-15", 48, 7, 0.30}};
  enum { BATCH = 32 };
  printf(
      "  Residual networks on 224 x 224 images, batch %d: GB of values, without resident bytes. Ours at the\n"
      "  published figure (1000 layers: 7 GB at about +30 %%), or, at depths without one, where the plan of\n"
      "  sqrt(n) checkpoints is. Met: within it at no more overhead.\n\n"
      "  %6s | %8s %7s %9s | %8s %8s %9s | %6s %9s %8s\n",
      BATCH, "layers", "keep all", "theirs", "overhead", "keep all", "sqrt(n)", "overhead", "Neap",
      "overhead", "seconds");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const bool published = rows[i].theirs > 0;
    struct network network;
    struct outcome root, ours;
    progress(report, "  planning %s ...", rows[i].model);
    neap_status status = open_network(rows[i].model, BATCH, &network);
    const uint64_t resident = network.info.resident_bytes;
    if (status == NEAP_OK) status = plan_checked(network.step, NEAP_BUDGET_MIN, "chen-sqrt", &root);
    if (status == NEAP_OK)
      status =
          plan_checked(network.step, published ? resident + (uint64_t)(rows[i].theirs * gigabyte) : root.peak,
                       "auto", &ours);
    neap_step_free(network.step);
    if (status != NEAP_OK) return status;
    if (published)
      print_row(report, "  %6d | %8.0f %7.0f %+7.0f %% |", rows[i].layers, rows[i].vanilla, rows[i].theirs,
                100 * rows[i].overhead);
    else
      print_row(report, "  %6d | %8s %7s %9s |", rows[i].layers, "", "", "");
    print_row(report, " %8.2f %8.2f %+7.1f %% | %6.2f", (double)(network.keep_all - resident) / gigabyte,
              (double)root.values / gigabyte, 100 * root.overhead, (double)ours.values / gigabyte);
    print_overhead(report, &ours);
    print_row(report, " %8.1f   %s\n", ours.seconds,
              !published ? "" : verdict(report, ours.fits && ours.overhead <= rows[i].overhead));
  }
  return NEAP_OK;
}
