/* The parts of a ladder side net (Sung et al. 2022, arXiv:2206.06522): a narrow stack beside a frozen one,
 * whose rows it reads behind each block. Gradients only flow through the narrow stack. */
#ifndef NEAP_ZOO_SIDE_NET_H
#define NEAP_ZOO_SIDE_NET_H

#include "zoo/sequence.h"

/* The beginnings of its parameters' names. */
#define SIDE_NET  "side."
#define SIDE_GATE SIDE_NET "gate." /* and that of the gates, one behind each block */

/* Gives the narrow stack's first rows [N, T, width], Down_0 x, of the embedding x. */
neap_tensor side_net_begin(neap_builder *b, int64_t width, neap_tensor x);

/* Gives what the narrow block `block`, counted from 0, reads: mu y + (1 - mu) Down x, of its rows y and the
 * wide block's output x; mu = sigmoid(a / 0.1), a number that is learned and begins with 0. */
neap_tensor side_net_mix(neap_builder *b, int64_t block, neap_tensor y, neap_tensor x);

/* Gives x + Up y, which begins as x: Up begins with zeros. */
neap_tensor side_net_end(neap_builder *b, neap_tensor y, neap_tensor x);

/* Marks the parameters of the narrow stack as adapters, and freezes all others. */
void side_net_mark(neap_builder *b);

#endif
