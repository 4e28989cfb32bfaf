/* Update rules. Define UPDATE, MATRIX_UPDATE and NAMED_UPDATE and include this.
 *
 *     UPDATE(NAME, id, "word", "Name", stream, "summary", (numbers), (fields), formula)
 *
 * A row is all of a rule that changes each element alone: its operator, its optimizer (NEAP_NAME, in the
 * order of neap_optimizer), its word on the command line, and the kernels of every backend are made from it.
 *
 * `stream` is what variables of 16 bits are rounded by; a rule keeps its number for ever. `numbers`: what the
 * operator is given, as NUMBER(x) and SWITCH(x); `fields`: of its optimizer_row. `formula` changes w and the
 * states `first` and `second`, given the gradient g and the numbers by name; `rate` is the step's.
 * first_correction = 1 / (1 - beta1^t) and second_correction = 1 / sqrt(1 - beta2^t) for update number t.
 * has_first, has_second: whether a parameter has the state.
 *
 * Formulas are compiled in float and in double. `real` is their type; SQRT and SIGN are functions of it.
 *
 *     MATRIX_UPDATE(NAME, id, "word", "Name", stream, "summary", (numbers), (fields))
 *
 * The same for a rule that works on whole matrices: its formula is rule_<id> in kernel/matrix_rule.h. Its
 * states are of f32, and each process has all of them.
 *
 *     NAMED_UPDATE(NAME, OF, "word", "summary", (fields))
 *
 * Another name of the rule OF, with fields of its own.
 *
 * A macro that is not defined has no effect; all are undefined at the end of the list. */
#ifndef UPDATE
#define UPDATE(...)
#endif
#ifndef MATRIX_UPDATE
#define MATRIX_UPDATE(...)
#endif
#ifndef NAMED_UPDATE
#define NAMED_UPDATE(...)
#endif

UPDATE(SGD, sgd, "sgd", "SGD", 110, "momentum, Nesterov's momentum or none",
       (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(momentum), SWITCH(nesterov)),
       (.states = {"momentum"}, .epsilon = 1e-8f, .rate = 0.1, .decay = 0.0005f, .momentum = 0.9f), {
         const real d = g + weight_decay * (w - origin);
         if (has_first) first = momentum * first + d;
         w -= rate * (!has_first ? d : nesterov ? d + momentum * first : first);
       })

UPDATE(ADAMW, adamw, "adamw", "AdamW", 111, "Adam with decoupled weight decay",
       (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(beta1), NUMBER(beta2), NUMBER(epsilon)),
       (.source = "Loshchilov and Hutter 2019", .states = {"first_moment", "second_moment"},
        .without_sign = 2, .momentum_state = -1, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f,
        .rate = 0.001, .decay = 0.01f,
        .momentum = 0.9f /* it has none; the number is part of its checkpoints */),
       {
         first += (1 - beta1) * (g - first);
         second = beta2 * second + (1 - beta2) * g * g;
         w -= rate * weight_decay * (w - origin);
         w -= rate * first_correction * first / (SQRT(second) * second_correction + epsilon);
       })

UPDATE(ADAM, adam, "adam", "Adam", 112, "moments of the gradient, weight decay in it",
       (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(beta1), NUMBER(beta2), NUMBER(epsilon)),
       (.source = "Kingma and Ba 2015", .states = {"first_moment", "second_moment"}, .without_sign = 2,
        .momentum_state = -1, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .rate = 0.001),
       {
         const real d = g + weight_decay * (w - origin);
         first += (1 - beta1) * (d - first);
         second = beta2 * second + (1 - beta2) * d * d;
         w -= rate * first_correction * first / (SQRT(second) * second_correction + epsilon);
       })

UPDATE(RMSPROP, rmsprop, "rmsprop", "RMSprop", 113, "gradient over its root mean square, momentum",
       (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(momentum), NUMBER(beta2), NUMBER(epsilon)),
       (.source = "Tieleman and Hinton 2012", .states = {"square_average", "momentum"}, .without_sign = 1,
        .momentum_state = 1, .beta2 = 0.99f, .epsilon = 1e-8f, .rate = 0.001),
       {
         const real d = g + weight_decay * (w - origin);
         first = beta2 * first + (1 - beta2) * d * d;
         const real moved = d / (SQRT(first) + epsilon);
         if (has_second) second = momentum * second + moved;
         w -= rate * (has_second ? second : moved);
       })

UPDATE(LION, lion, "lion", "Lion", 114, "sign of an interpolated momentum: one state",
       (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(beta1), NUMBER(beta2)),
       (.source = "Chen et al. 2023", .states = {"momentum"}, .momentum_state = -1, .beta1 = 0.9f,
        .beta2 = 0.99f, .epsilon = 1e-8f, .rate = 0.0001, .decay = 0.01f),
       {
         const real mixed = beta1 * first + (1 - beta1) * g;
         w -= rate * (weight_decay * (w - origin) + SIGN(mixed));
         first = beta2 * first + (1 - beta2) * g;
       })

UPDATE(LOMO, lomo, "lomo", "LOMO", 119, "the gradient alone: no state",
       (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin)),
       (.source = "Lv et al. 2023", .momentum_state = -1, .rate = 0.01), {
         w -= rate * weight_decay * (w - origin);
         w -= rate * g;
       })

MATRIX_UPDATE(ADALOMO, adalomo, "adalomo", "AdaLomo", 120,
              "mean squares by row and column; steps relative to weights",
              (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(epsilon)),
              (.source = "Lv et al. 2023", .states = {"row_variance", "column_variance"},
               .shapes = {STATE_ROWS, STATE_COLUMNS}, .epsilon = 1e-30f, .rate = 0.001))

MATRIX_UPDATE(ADAFACTOR, adafactor, "adafactor", "Adafactor", 121, "mean squares by row and column",
              (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(epsilon)),
              (.source = "Shazeer and Stern 2018", .states = {"row_variance", "column_variance"},
               .shapes = {STATE_ROWS, STATE_COLUMNS}, .epsilon = 0x1p-23f, .rate = 0.01))

MATRIX_UPDATE(APOLLO, apollo, "apollo", "APOLLO", 122,
              "the gradient, scaled as AdamW scales a projection of it",
              (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(beta1), NUMBER(beta2),
               NUMBER(epsilon), COUNT(projection_rank), COUNT(projection_every), NUMBER(projection_scale)),
              (.source = "Zhu et al. 2024", .states = {"first_moment", "second_moment", NULL, "limit"},
               .shapes = {STATE_PROJECTED, STATE_PROJECTED, STATE_NONE, STATE_ONE}, .hidden = true,
               .rest = NEAP_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f, .rate = 0.01,
               .projection_rank = 128, .projection_every = 200, .projection_scale = 1))

MATRIX_UPDATE(APOLLO_MINI, apollo_mini, "apollo-mini", "APOLLO-Mini", 123,
              "the same with one number a row and one factor a matrix",
              (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(beta1), NUMBER(beta2),
               NUMBER(epsilon), COUNT(projection_rank), COUNT(projection_every), NUMBER(projection_scale)),
              (.source = "Zhu et al. 2024", .states = {"first_moment", "second_moment", NULL, "limit"},
               .shapes = {STATE_PROJECTED, STATE_PROJECTED, STATE_NONE, STATE_ONE}, .hidden = true,
               .rest = NEAP_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f, .rate = 0.01,
               .projection_rank = 1, .projection_every = 200, .projection_scale = 128))

MATRIX_UPDATE(ADAM_MINI, adam_mini, "adam-mini", "Adam-mini", 124,
              "AdamW with one second moment a head or row",
              (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(beta1), NUMBER(beta2),
               NUMBER(epsilon), COUNT(block), COUNT(blocked)),
              (.source = "Zhang et al. 2024", .states = {"first_moment", "second_moment"},
               .shapes = {STATE_ALIKE, STATE_BLOCKS}, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f,
               .rate = 0.001, .decay = 0.01f))

MATRIX_UPDATE(MUON, muon, "muon", "Muon", 125, "momentum made orthogonal; AdamW beside hidden matrices",
              (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(momentum)),
              (.source = "Jordan et al. 2024", .states = {"momentum"}, .shapes = {STATE_ALIKE},
               .hidden = true, .rest = NEAP_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f,
               .rate = 0.001, .decay = 0.01f, .momentum = 0.95f))

MATRIX_UPDATE(GALORE, galore, "galore", "GaLore", 126, "AdamW in the gradient's leading subspace",
              (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(beta1), NUMBER(beta2),
               NUMBER(epsilon), COUNT(projection_rank), COUNT(projection_every), NUMBER(projection_scale)),
              (.source = "Zhao et al. 2024", .states = {"first_moment", "second_moment", "projection"},
               .shapes = {STATE_PROJECTED, STATE_PROJECTED, STATE_PROJECTION}, .hidden = true,
               .rest = NEAP_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f, .rate = 0.01,
               .projection_rank = 128, .projection_every = 200, .projection_scale = 0.25f))

MATRIX_UPDATE(FIRA, fira, "fira", "Fira", 127, "GaLore, and the rest of the gradient scaled alike",
              (NUMBER(rate), NUMBER(weight_decay), NUMBER(origin), NUMBER(beta1), NUMBER(beta2),
               NUMBER(epsilon), COUNT(projection_rank), COUNT(projection_every), NUMBER(projection_scale)),
              (.source = "Chen et al. 2024",
               .states = {"first_moment", "second_moment", "projection", "limit"},
               .shapes = {STATE_PROJECTED, STATE_PROJECTED, STATE_PROJECTION, STATE_ONE}, .hidden = true,
               .rest = NEAP_ADAMW, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-6f, .rate = 0.01,
               .projection_rank = 128, .projection_every = 200, .projection_scale = 1))

NAMED_UPDATE(ADAMW8, ADAMW, "adamw8", "AdamW with states of 8 bits",
             (.source = "Dettmers et al. 2022", .states = {"first_moment", "second_moment"},
              .without_sign = 2, .momentum_state = -1, .beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f,
              .rate = 0.001, .decay = 0.01f, .states_8bit = true))

NAMED_UPDATE(LION8, LION, "lion8", "Lion with a state of 8 bits",
             (.source = "Dettmers et al. 2022", .states = {"momentum"}, .momentum_state = -1, .beta1 = 0.9f,
              .beta2 = 0.99f, .epsilon = 1e-8f, .rate = 0.0001, .decay = 0.01f, .states_8bit = true))

#undef UPDATE
#undef MATRIX_UPDATE
#undef NAMED_UPDATE
