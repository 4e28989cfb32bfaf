/* The tunable numbers of planning: each trades work for quality. No plan is wrong with another number, but
 * plans change. Work is counted in steps of the current search, never in seconds. A number that only fits an
 * array or a stack is defined where it is used. */
#ifndef NEAP_STEP_TUNING_H
#define NEAP_STEP_TUNING_H

/* ---- One plan (search/planning.c, search/plan_neap.c) ---- */

/* The work of a plan, in units of the timeline: hundredths of a second for ten nodes, less than a second for
 * a few hundred, a few seconds for ten thousand. */
enum {
  PLAN_WORK_NODES = 400, /* this number of nodes get the first amount each, all others the second */
  PLAN_WORK_EACH = 46000,
  PLAN_WORK_EACH_MORE = 4800,
  PLAN_NEAR_SHARE = 4,      /* a search from a schedule that needs little more gets this share of the work, */
  PLAN_NEAR_STARTS = 2,     /* from this many starts */
  PLAN_LONG_WORK = 1 << 23, /* of the best two in turn, if the caller gives time */
  PLAN_FROM_BELOW_NODES = 200, /* in larger steps the way down to the least takes seconds */
  RESTORING_SHARE = 8,         /* of the work, for each factor of transfers (search/plan_restoring.c) */
  PEBBLING_NODES = 64,         /* steps of at most this size are searched exhaustively for the cheapest, */
  PEBBLING_WORK = 5000000      /* with this much work: some hundredths of a second */
};
static const double PLAN_RUNNER_UP_COST = 1.005; /* times the best: its layout may be better */
static const double PLAN_FROM_BELOW_COST = 1.4;  /* times the step: from there on recomputation is deep */

/* Another order of the nodes is used if its peak is below this share of the given order's. */
static const double ORDER_MIRRORED_SHARE = 0.95, ORDER_LEANER_SHARE = 0.9;

/* ---- The least memory (search/neap_least.c) ---- */

enum {
  LEAST_WORK_MOST = 24000000,     /* of each search: twice that of a plan, but in a large step */
  LEAST_SEARCHES = 4,             /* get a part of a caller's limit of the work; */
  LEAST_WHOLE = 12,               /* plans' work is what finding the least takes without a limit */
  LEAST_PEBBLING_NODES = 100,     /* in larger steps it finds deep recomputation whose values do not pack */
  LEAST_PEBBLING_WORK = 32000000, /* some hundredths of a second */
  LEAST_PEBBLING_UNITS = 16       /* of its work in the time of one unit of the timeline */
};

/* Shares of the live bytes: the first step down, and the last; a step that fails is halved. */
struct steps_down {
  double first, least;
};
static const struct steps_down LEAST_BY_CHAIN = {0.5, 0.02}, LEAST_BY_SEARCH = {0.3, 0.002},
                               LEAST_BY_CHAIN_AGAIN = {0.01, 0.0005}, LEAST_BY_EVICT = {0.1, 0.0005},
                               LEAST_BY_START = {0.02, 0.004}, LEAST_BY_PEBBLING = {0.1, 0.001};

/* ---- The search (search/search.c) ---- */

enum {
  TIDY_ROUNDS = 5,
  DESCEND_ROUNDS = 120,  /* prices */
  MEND_ROUNDS = 24,      /* prices, each twice the one before */
  EASE_TRIES = 8,        /* at one exchange, */
  EASE_DOUBLINGS = 24,   /* which doubles this number of times */
  RUIN_STRETCHES = 3,    /* at most, in the order of the step */
  RUIN_RADIAL_TRIES = 4, /* for each node that is wanted */
  RUIN_ROUNDS = 24       /* prices, each twice the one before */
};
static const double DESCEND_SLOW = 1.12,
                    DESCEND_FAST = 2;   /* factors by which the price rises: larger if it changes nothing */
static const double EASE_FIRST = 0.004; /* of the step, for all that is above the limit */
static const double RUIN_PRICE_FIRST = 0.01, RUIN_PRICE_LAST = 3; /* of the exchange */

/* ---- Evicting (search/evict.c) ---- */

enum { EVICT_LARGE_GRID = 6 };                  /* points of the grid that a large step tries */
static const double EVICT_COST_LIMIT = 16;      /* times the step: a walk that recomputes more is given up; */
static const double EVICT_COST_OVER_BEST = 1.5; /* times the overhead of the best: the same */

/* ---- The step as a chain (search/chain.c, stage.c, chain_plan.c, rotor_plan.c) ---- */

enum {
  CHAIN_UNREAD_SHARE = 8,     /* of a boundary's bytes, at most, the backward pass does not read */
  CHAIN_CLEAN_LIMIT = 200000, /* positions: cleaning takes time in their number times their lives */
  STAGE_LONGEST = 8,          /* of a lean list: times the nodes of the stage */
  STAGE_SMALL_SHARE = 200,    /* a value of at most this share of what is read is always kept, and held */
  STAGE_ROUGH_OPTIONS = 16,   /* where trying each value would take too long */
  STAGE_HELD_NODES = 400,     /* forward nodes of a stage that is tried value by value */
  STAGE_WORK = 2000000,       /* nodes of a stage times sets that are tried */
  ROTOR_SLOTS = 500, /* of the budget; and sets of kept values that are tried for a class of stages */
  ROTOR_SETS = 600,
  ROTOR_SLOTS_QUICK = 160,
  ROTOR_SETS_QUICK = 60,
  ROTOR_MOST_STAGES = 1024, /* before the work is looked at */
  ROTOR_MOST_SLOTS = 4000,  /* of the budget, in a short chain */
  ROTOR_PEAK_SHARE = 128,   /* of the slots: slack of peaks, which seldom decides the plan */
  ROTOR_TRIALS = 8,         /* internal budgets to either side of the one that fits; more of small steps */
  ROTOR_TRIAL_NODES = 60000 /* nodes that those trials simulate */
};
static const double ROTOR_MOST_WORK = 6e9;  /* additions in the tables */
static const double ROTOR_SMALL_WORK = 2e8; /* for which more slots are taken */
static const double ROTOR_BEYOND = 1.15;    /* the tables count some bytes that share a place or are dead:
                                               internal budgets exceed the real one */

/* ---- Layout ---- */

/* Work of the search for enough, of the search among the large shapes, and of the search that halves the gap
 * (layout/stages.h). */
enum {
  LAYOUT_SEARCHED = 20000000,
  LAYOUT_STAGED = 6000000,
  LAYOUT_STAGED_MOST = 256000000, /* with the largest effort */
  LAYOUT_CLOSING = 8000000,
  LAYOUT_MORE = 16,   /* times: of the first two with a large effort, of the last with the largest */
  CLOSE_SHARES = 4,   /* halvings of the gap that get all of it between them, at the least */
  MANY_SHAPES = 5000, /* from here on each shape has thousands of neighbours and the search takes too long;
                         only the first two orders are tried, by far the best */
  SWEPT_ONLY_SHAPES = 100000, /* more are placed in the order of time only: all else looks at all for each */
  LARGE_FIRST_SHARE = 16,     /* of the goal: shapes this large are placed first, then those half as large, */
  LARGE_LAST_SHARE = 2048,    /* down to this, */
  LARGE_STEPS = 2,            /* from their live bytes to the goal in this many steps */
  LARGE_MANY_SHARE = 256,     /* of the capacity: the size that is placed first if there are many shapes */
  TIGHT_SEARCHED = 2000000,   /* some hundredths of a second */
  TIGHT_WORK = 600000,        /* neighbours that ejection looks at */
  LATER_STAGES = 4            /* stages after the first, placed by ejection */
};

/* Work of ejection: some hundredths of a second, as a plan is laid out repeatedly; seconds if the least is
 * asked for with effort. */
enum {
  EJECT_WORK = 500000,
  EJECT_WORK_EACH = 50,       /* instance */
  EJECT_LARGE = 4,            /* times, with a large effort */
  EJECT_NEAR_SHARE = 25,      /* if the search ended farther off than this share of the capacity, */
  EJECT_FAR_LESS = 8,         /* this much less work is done: it hardly ever helps */
  EJECT_WORK_EACH_PAIR = 4,   /* of instances, for the least, */
  EJECT_WORK_MOST = 40000000, /* at the most */
  EJECT_HALVINGS = 3,         /* of the gap above the least */
  EJECT_HALVINGS_MORE = 2     /* times, with a large effort */
};
static const double EJECT_GROWTH = 1.5;   /* of the weight of a displaced shape, */
static const double EJECT_HEAVIEST = 1e6; /* up to this many times what it weighed */

/* ---- Rounds (plan/plan_row.c, plan/make.c) ---- */

enum {
  ROUNDS_MOST = 4,
  ROUNDS_REPAIRED = 3,    /* a plan that is repaired needs fewer */
  ROUNDS_UNREPAIRED = 2,  /* that ask for less before a layout which nearly fits is repaired */
  ROUND_NEAR_SHARE = 500, /* of the capacity: for this little less the planner goes on from its schedule */
  ROUND_DEAR_NODES = 400, /* steps of up to this size get another round if the plan is expensive */
  CUT_MUCH = 8,           /* shares of the capacity, by which the planner gets less */
  CUT_LITTLE = 128,
  CUT_LEAST = 1000,
  CUT_OFTEN = 8,      /* rounds; beyond it shares are all there is */
  LEAST_ROUNDS = 3,   /* for the cheapest plan in the bytes of the least */
  SHRINK_TRIES = 4,   /* of the arena of the least schedule */
  SHRINK_SHARE = 100, /* of the live bytes: smaller gaps are not reduced */
  NARROW_PLANS = 24   /* one below the other, for a planner without its own way to the least */
};
static const double ROUND_DEAR = 0.03;   /* of the step, beyond the cost with all of the budget: expensive */
static const double NARROW_RATIO = 1.02; /* between a budget that is met and one that is not */
static const double LONG_SHARE = 0.7; /* of the time that is left, for the planner; the rest is for layouts */
static const double LONG_MOMENT = 0.05; /* seconds: less is not worth it */

/* Seconds that planning takes about: a piece of a pipeline has no time limit below them. */
static const double PIECE_SECONDS = 1;

/* ---- Repair (plan/repair.c) ---- */

enum {
  TIGHTNESS = 200, /* an arena is tight where it is at most 1 + 1 / TIGHTNESS times the largest live bytes */
  NEARLY_SHARE = 48,          /* of the capacity: a layout that lacks no more nearly fits */
  REPAIR_LITTLE_SHARE = 200,  /* the same: more work on the layout is hardly ever of use */
  REPAIR_PATIENCE = 10,       /* layouts in vain: while none fits, */
  REPAIR_PATIENCE_TIGHT = 3,  /* and while none is tight */
  REPAIR_PAD_SHARE = 100,     /* of what is enough: no node leaves less to values if layouts stick out */
  REPAIR_SLACK_SHARE = 50,    /* of the live bytes: a layout that wastes more cannot be made tight */
  REPAIR_HOPELESS_SHARE = 40, /* of the capacity: a schedule that lacks more does with too little less */
  REPAIR_MEND_SHARE = 100,    /* of the excess: if no more is left over, the schedule is mended again */
  REPAIR_LONGER = 16,         /* pieces more, if it is expensive */
  REPAIR_FURTHER = 6,         /* times on from what comes nearest */
  REPAIR_FURTHER_QUICK = 2,
  REPAIR_WORK_EACH = 1000, /* of a piece, for each node, some hundredths of a second; */
  REPAIR_WORK_MOST = 150000,
  REPAIR_WORK_EACH_MORE = 200
};
static const double REPAIR_TIGHT_WORTH = 1.001; /* times the cost: a tight layout is not worth more */
static const double REPAIR_NEAR_COST = 0.002;   /* of the step: near enough to the start's cost, */
static const double REPAIR_DEAR = 0.02;         /* and far enough above it to become cheaper */
static const double REPAIR_SETTLED = 0.99; /* of the cost of the piece before: it no longer becomes cheaper */

/* ---- Bounds (plan/memory_bound.c, plan/cost_bound.c) ---- */

enum {
  BOUND_WORK_EACH = 1000, /* for each node, before the search for all */
  BOUND_CUTS = 24,        /* nodes of a chain of cuts; */
  BOUND_CUTS_LARGE = 10,  /* of a large step */
  BOUND_SAMPLES = 32      /* nodes looked at for each */
};

#endif
