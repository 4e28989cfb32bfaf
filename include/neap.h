/* Neap: train neural networks inside a memory budget.
 *
 * The user says how many bytes training may use: parameters, gradients, optimizer state, activations,
 * workspaces, all of it. Neap finds the fastest way to train exactly that model inside those bytes, proves
 * the peak before the first step and never exceeds it. Every budget gives the same bits.
 *
 * This header includes all others. Each of them stands alone. */
#ifndef NEAP_H
#define NEAP_H

#include "neap_collective.h" /* several processes */
#include "neap_files.h"      /* files of steps, plans and layouts */
#include "neap_graph.h"      /* networks: a tensor is an integer, an operator is a call */
#include "neap_model.h"      /* models: ready-made networks, and those in files */
#include "neap_operators.h"  /* the operators */
#include "neap_plan.h"       /* plans without data: a step in, a schedule and offsets out */
#include "neap_session.h"    /* training step by step, prediction, speed */
#include "neap_settings.h"   /* the options of neap_train by name */
#include "neap_status.h"     /* errors, ownership, threads */
#include "neap_text.h"       /* generate, chat, translate */
#include "neap_train.h"      /* training over data sets: epochs, checkpoints, metrics */

#endif
