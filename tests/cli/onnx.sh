# ONNX files as models: planned, trained, gone on with from another folder, evaluated, predicted with and exported; another
# file is refused, a moved one is not.
source "$(dirname "$0")/common.bash"

cp "$source"/tests/onnx/*.onnx "$source"/tests/onnx/external.data .
{
  echo a,b,c,d,e,label
  for i in $(seq 40); do echo "$((i % 7)),$((i % 5)),$((i % 3)),$((i % 4)),$((i % 6)),$((i % 3))"; done
} >table.csv
table=(--data csv:table.csv)

expect 0 "$neap" plan --model images.onnx --batch 8 --budget min --json
has peak_bytes

# The file's weights come first: with a learning rate of 0 the run's stay what they are, by prefix or suffix.
still=("${table[@]}" --batch 10 --steps 3 --lr 0 --weight-decay 0)
expect 0 "$neap" train --model onnx:features.onnx "${still[@]}" --seed 1 --out still
expect 0 "$neap" train --model features.onnx "${still[@]}" --seed 2 --out again
expect 0 "$neap" predict still "${table[@]}" -o still.npy
expect 0 "$neap" predict again "${table[@]}" -o again.npy
cmp -s still.npy again.npy || fail "the seed changes what a file's weights give"
expect 0 "$neap" train --model features.onnx "${table[@]}" --batch 10 --steps 3 --lr 0.1 --schedule constant --out run
expect 0 "$neap" predict run "${table[@]}" -o run.npy
if cmp -s still.npy run.npy; then fail "training changed nothing"; fi

expect 0 "$neap" export run -o run.onnx --json
same "$(field opset)" 17 "opset"
same "$(field batch)" null "batch"
same "$(field normalised)" true "normalised"
[ -s run.onnx ] || fail "run.onnx is empty"

# What an export does to the data, Neap does itself: a file that comes back gives the same predictions.
expect 0 "$neap" train --model run.onnx "${still[@]}" --out back
expect 0 "$neap" predict back "${table[@]}" -o back.npy
cmp -s run.npy back.npy || fail "an exported file predicts something else when it comes back"
values=(--data csv:table.csv,label=c,task=regression)
expect 0 "$neap" train --model mlp-8 "${values[@]}" --batch 10 --epochs 3 --out values
expect 0 "$neap" predict values "${values[@]}" -o values.npy
expect 0 "$neap" export values -o values.onnx
expect 0 "$neap" train --model values.onnx "${values[@]}" --batch 10 --steps 3 --lr 0 --weight-decay 0 --out values-back
expect 0 "$neap" predict values-back "${values[@]}" -o values-back.npy
cmp -s values.npy values-back.npy || fail "an exported file of values predicts something else when it comes back"

# A run goes on from anywhere, with the file where it was; and with the same bytes elsewhere.
(mkdir far && cd far && expect 0 "$neap" train --resume ../run --steps 5)
expect 0 "$neap" evaluate run --json
same "$(field step)" 5 "step"
mkdir moved && mv features.onnx moved/
expect 1 "$neap" evaluate run
says "features.onnx: cannot be opened"
expect 0 "$neap" train --resume run --model moved/features.onnx --steps 6
cp moved/features.onnx features.onnx
expect 0 "$neap" predict run --model features.onnx "${table[@]}" -o other.npy
printf '\162\000' >>features.onnx # an empty field more: the same graph, another file
expect 2 "$neap" predict run --model features.onnx "${table[@]}" -o other.npy
says "was trained from a model file of SHA-256"

# External data are read when a run begins, and not again.
images=(--data synthetic:images=64)
expect 0 "$neap" train --model external.onnx "${images[@]}" --batch 4 --steps 2 --out images
mv external.data away
expect 0 "$neap" evaluate images --json
expect 1 "$neap" train --model external.onnx "${images[@]}" --batch 4 --steps 2 --out never
says "put that file next to the model"
expect 0 "$neap" plan --model external.onnx --batch 4 --budget max --json

# What is refused says which node, and what to do.
expect 1 "$neap" train --model bad-operator.onnx "${table[@]}" --out never
says "node 'top' (Hardmax, opset 18): this operator is not supported"
expect 2 "$neap" train --model images.onnx "${table[@]}" --out never
says "learns from"
expect 1 "$neap" plan --model nothing.onnx --budget max
says "nothing.onnx: cannot be opened"
expect 2 "$neap" export
says "the folder of a run, or a model file, is missing"
expect 2 "$neap" export run
says "-o is missing"
