"""Changes a step file so that weights of linear layers get their gradients from sketches of their inputs.

    sketched_step.py GRAPH.json RATIO -o SKETCHED.json

A Sketch node in the forward pass reads a layer's input X [m, in] and makes S^T X [RATIO m, in] (Merkulov et al. 2022, arXiv
2201.13195), at the cost of reading X at 25 GB/s; the gradient of the weights reads it in place of X. The step trains another model:
it says what sketches would save, to `neap plan`, before a kernel exists.
"""

import argparse
import json


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("graph")
    p.add_argument("ratio", type=float)
    p.add_argument("-o", dest="out", required=True)
    a = p.parse_args()
    with open(a.graph) as f:
        graph = json.load(f)
    tensors, nodes = graph["tensors"], graph["nodes"]
    made, sketched = {}, {}
    for at, node in enumerate(nodes):
        for tensor in node["outputs"]:
            made[tensor] = at
    before = [[] for _ in nodes]
    for node in nodes:
        x = node["inputs"][0] if node["inputs"] else -1
        if node["op"] != "LinearBackwardWeights" or x not in made or nodes[made[x]]["pass"] != "forward":
            continue
        if x not in sketched:
            bytes_of = tensors[x]["bytes"]
            name = tensors[x]["name"] + " sketched"
            tensors.append({"name": name, "bytes": int(bytes_of * a.ratio), "role": "value"})
            sketched[x] = len(tensors) - 1
            sketch = {"name": name, "op": "Sketch", "pass": "forward", "cost": bytes_of / 25e9, "workspace": 0}
            sketch |= {"inputs": [x], "outputs": [sketched[x]], "updates": [], "inplace": [], "repeatable": True}
            before[made[x]].append(sketch)
        node["inputs"][0] = sketched[x]
    graph["nodes"] = [n for at, node in enumerate(nodes) for n in [node, *before[at]]]
    with open(a.out, "w") as f:
        json.dump(graph, f)
    print(f"{a.out}: {len(sketched)} inputs of linear layers are sketched")


if __name__ == "__main__":
    main()
