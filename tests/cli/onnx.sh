# ONNX files as models: planned, trained, resumed from another folder, evaluated, predicted with and exported; another file is
# refused, a moved one is not.
source "$(dirname "$0")/common.bash"

models=$source/tests/onnx
cp "$models"/*.onnx "$models"/external.data .
data=synthetic:images=64,side=8,channels=1
rows() { for i in $(seq 40); do echo "$((i % 7)),$((i % 5)),$((i % 3)),$((i % 4)),$((i % 6)),$((i % 3))"; done; }
{ echo a,b,c,d,e,label; rows; } >table.csv

expect 0 "$neap" plan --model images.onnx --batch 8 --budget min --json
has peak_bytes

# The file's weights come first: with a learning rate of 0 the run's are the file's, which the exported file has again.
table=csv:table.csv,test=table.csv
expect 0 "$neap" train --model onnx:features.onnx --data $table --batch 10 --steps 3 --lr 0 --weight-decay 0 --out still
expect 0 "$neap" predict still --data $table -o still.npy
expect 0 "$neap" train --model features.onnx --data $table --batch 10 --steps 3 --lr 0.1 --out run
expect 0 "$neap" predict run --data $table -o run.npy
cmp -s still.npy run.npy && fail "training changed nothing"
expect 0 "$neap" export still -o still.onnx --json
same "$(field opset)" 17 "opset"
same "$(field batch)" null "batch"

# A run goes on from anywhere, with the file where it was; and with the same bytes elsewhere.
mkdir far && cd far
expect 0 "$neap" train --resume ../run --steps 5
expect 0 "$neap" evaluate ../run --json
same "$(field step)" 5 "step"
cd ..
mkdir moved && mv features.onnx moved/
expect 1 "$neap" evaluate run
says "features.onnx: cannot be opened"
expect 0 "$neap" predict run --model moved/features.onnx --data $table -o moved.npy 2>/dev/null || true
cp images.onnx features.onnx
expect 2 "$neap" evaluate run
says "was trained from a model file of SHA-256"
cp moved/features.onnx features.onnx

# External data are read when a run begins, and not again.
rm -rf images-run
expect 0 "$neap" train --model onnx:external.onnx --data mnist-like 2>/dev/null || true
mv external.data away
expect 1 "$neap" train --model onnx:features.onnx --data $table --init missing.safetensors --out never
expect 0 "$neap" plan --model external.onnx --batch 4 --budget max --json

# What is refused says which node, and what to do.
expect 1 "$neap" train --model bad-operator.onnx --data $table --out never
says "node 'top' (Hardmax, opset 18): this operator is not read"
expect 2 "$neap" train --model features.onnx --data synthetic --out never
says "learns from"
expect 1 "$neap" train --model nothing.onnx --data $table --out never
says "nothing.onnx: cannot be opened"
expect 2 "$neap" export
says "the folder of a run is missing"
expect 2 "$neap" export run
says "-o is missing"
[ ! -e never ] || fail "a refused run left a folder"
