# What reads a run's weights sees that a bit of them has changed, ends with status 1, and writes nothing.
source "$(dirname "$0")/common.bash"

command -v python3 >/dev/null || exit 77
flip() { # flip FILE: another last bit of the number before the last one
  python3 -c '
import sys
with open(sys.argv[1], "r+b") as file:
    file.seek(-8, 2)
    byte = file.read(1)[0]
    file.seek(-8, 2)
    file.write(bytes([byte ^ 1]))' "$1"
}
# damaged COMMAND...: refuses the weights.
damaged() {
  expect 1 "$@"
  says "is damaged or incomplete"
  quiet
}

data=synthetic:images=32
expect 0 "$neap" train --model mlp-8 --data "$data" --batch 8 --epochs 2 --threads 1 --schedule constant --out run --keep-best
expect 0 "$neap" predict run --data "$data" -o whole.npy
expect 0 "$neap" predict run --best --data "$data" -o best.npy
cp -r run copy
flip copy/best-*.safetensors
damaged "$neap" predict copy --best --data "$data" -o out.npy
damaged "$neap" evaluate copy --best
expect 0 "$neap" predict copy --data "$data" -o again.npy
flip run/weights-*.safetensors
damaged "$neap" predict run --data "$data" -o out.npy
damaged "$neap" evaluate run
damaged "$neap" export run -o out.onnx
damaged "$neap" train --resume run --epochs 3
damaged "$neap" train --model mlp-8 --data "$data" --batch 8 --steps 1 --init run --out other
truncate -s -64 run/weights-*.safetensors
damaged "$neap" predict run --data "$data" -o out.npy
[ ! -e out.npy ] && [ ! -e out.onnx ] && [ ! -e other/state.json ] || fail "something was written: $(ls)"

printf 'a line of text that is learned\n%.0s' {1..100} >text
expect 0 "$neap" train --model gpt-1x16x2 --data text:text,tokens=bytes --length 16 --batch 4 --steps 2 --threads 1 --out words
expect 0 "$neap" generate words --prompt a --tokens 2
flip words/weights-*.safetensors
damaged "$neap" generate words --prompt a --tokens 2

# A checkpoint of before there was this sum is read without it.
expect 0 "$neap" export "$source/tests/cli/earlier-checkpoint" -o earlier.onnx

# Weights of a whole file leave nothing to start at random, and nothing says so.
expect 0 "$neap" train --model mlp-8 --data "$data" --batch 8 --steps 1 --out all
expect 0 "$neap" train --model mlp-8 --data "$data" --batch 8 --steps 1 --init all
grep -q "^weights       4 tensors from all$" out || fail "$(cat out)"
