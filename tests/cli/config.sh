# Options from a file: --config, --show-config, names that were meant for others, errors as JSON.
source "$(dirname "$0")/common.bash"

cat >run.yaml <<END
# a run
model: wrn-10-1
data: "synthetic:images=1024"
batch: 8
steps: 3
threads: 1
evaluate: off
shuffle: false
nesterov: true
lr: 0.05
budget: 80%
json: true
END
same_options=(--model wrn-10-1 --data synthetic:images=1024 --batch 8 --threads 1 --evaluate off --shuffle off --nesterov --lr 0.05)
expect 0 "$neap" train "${same_options[@]}" --budget 80% --steps 3 --json
weights=$(field weights_sha256) budget=$(field budget_bytes)
expect 0 "$neap" train --config run.yaml
same "$(field weights_sha256)" "$weights" "weights of a run from a file"
same "$(field budget_bytes)" "$budget" "budget of a run from a file"

# What stands on the command line counts before the file, and so does what it stands in the place of.
expect 0 "$neap" train --steps 2 --config=run.yaml
same "$(field steps)" 2 "steps that the command line has"
expect 0 "$neap" train --config run.yaml --epochs 1 --show-config
grep -q 'epochs: 1' out || fail "epochs do not take the place of steps"
! grep -q '\\nsteps: 3' out || fail "steps of the file beside epochs of the command line"

# The whole set is a file that gives itself, and the same run.
sed -i '/^json/d' run.yaml
for options in "" "--optimizer adam --beta1 0 --schedule step --step-factor 0" "--allow micro,f16 --prefer time" \
  "--precision bf16 --master --loss-scale dynamic --micro-batch 4" "--sparse 0.3 --rewire-every off --clip-norm 0.7"; do
  [ "$options" != "--optimizer adam --beta1 0 --schedule step --step-factor 0" ] || sed -i '/^nesterov/d' run.yaml
  # shellcheck disable=SC2086
  expect 0 "$neap" train --config run.yaml $options --show-config
  cp out whole.yaml
  expect 0 "$neap" train --config whole.yaml --show-config
  cmp out whole.yaml || fail "the settings of '$options' are others when they were read"
  # shellcheck disable=SC2086
  expect 0 "$neap" train --config run.yaml $options --json
  weights=$(field weights_sha256)
  expect 0 "$neap" train --config whole.yaml --json
  same "$(field weights_sha256)" "$weights" "weights with '$options' by the whole set"
done
expect 0 "$neap" train --config run.yaml --processes 2 --show-config
grep -q '^processes: 2 ' out || fail "the number of processes is not among the settings: $(cat out)"
name=$'a "b" \\ \t \x7f \xc2\x85 \xf0\x9f\x98\x80'
expect 0 "$neap" train --config run.yaml --metrics "$name" --show-config
cp out whole.yaml
expect 0 "$neap" train --config whole.yaml
[ -s "$name" ] || fail "a name with signs of all kinds did not come through"

# A run that is gone on with may be given a file as well.
expect 0 "$neap" train --config run.yaml --schedule constant --out run
grep -q '"--lr": "0.05"' run/command.json || fail "an option of the file is not part of the run"
printf 'resume: run\nsteps: 5\njson: yes\n' >on.yaml
expect 0 "$neap" train --config on.yaml
same "$(field steps)" 5 "steps of a run that a file goes on with"

# Other verbs, with options of their own.
printf 'model: wrn-10-1\nbatch: 8\nbudget: max\no: plan.json\nthreads: 1\n' >plan.yaml
expect 0 "$neap" plan --config plan.yaml
[ -s plan.json ] || fail "an option of the verb itself is not read from the file"

bad() { # bad NAMED TEXT: a file of this text is refused
  printf '%s' "$2" >bad.yaml
  expect 2 "$neap" train --config bad.yaml
  says "bad.yaml:$1"
  quiet
}
bad "2: batch: is given twice, first in line 1" $'batch: 8\nbatch: 9\n'
bad "2: bathc: \`neap train\` has no such option; did you mean batch?" $'lr: 1\nbathc: 9\n'
bad "1: config: \`neap train\` has no such option" 'config: other.yaml'
bad "1: batch: has no value" 'batch:'
bad "1: batch 1.5: a whole number from 1 to 2147483647 is needed" 'batch: 1.5'
bad "1: nesterov maybe: must be true or false" 'nesterov: maybe'
bad "1: batch: a single value is needed (got a list)" 'batch: [1, 2]'
bad "4: batch: a single value is needed (got a mapping)" $'lr: 1\n\nbatch:\n  size: 3\n'
bad "1: lines of" 'just text'
bad "1: is not YAML" 'lr: "0.1'
expect 2 "$neap" train --config no-such.yaml
says no-such.yaml
printf '\xef\xbb\xbfbatch: 0\n' >bad.yaml
expect 2 "$neap" train --config bad.yaml
says "bad.yaml:1: batch 0"

meant() { # meant NAMED ARGUMENT...
  local named=$1
  shift
  expect 2 "$neap" "$@"
  says "did you mean $named?"
}
meant "neap train" trian
meant "neap translate" help tranlsate
meant "--batch" train --bacth 8
meant "--weight-decay" train --weight-deacy=8
meant "wrn-28-2" plan --model wnr-28-2
meant "gpt-2x64x4" train --model gtp-2x64x4 --data synthetic
meant "resnet50" plan --model resnet-50
expect 2 "$neap" plan --model something-else-entirely
! grep -q "did you mean" err || fail "a name that is like none is taken for another"

# Errors of usage are objects, too.
expect 2 "$neap" train --bacth 8 --json
same "$(field exit_status)" 2 "the exit status in the object"
field error | grep -qF -- "--bacth" || fail "the object does not name the option"
expect 2 "$neap" train --model wrn-10-1 --data synthetic --steps 1 --epochs 1 --json
has error
