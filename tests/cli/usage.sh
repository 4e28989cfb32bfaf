# Help of every verb, wrong usage, exit status 2.
source "$(dirname "$0")/common.bash"

expect 0 "$neap" --help
expect 0 "$neap" --version
verbs="train evaluate predict generate chat translate plan curve show check graph layout bench completion manual models planners ops"
for verb in $verbs; do
  expect 0 "$neap" "$verb" --help
  grep -qF -- "neap $verb" out || fail "the help of $verb does not name it"
  grep -qF -- "--json" out || fail "the help of $verb does not have --json"
  [ ! -s err ] || fail "the help of $verb writes messages"
  expect 2 "$neap" "$verb" --no-such-option
  quiet
  says "--no-such-option"
  says "neap $verb --help"
done

for verb in $verbs; do
  expect 0 "$neap" help "$verb"
  cp out help
  expect 0 "$neap" "$verb" --help
  cmp out help || fail "help $verb is not $verb --help"
done
expect 0 "$neap" help

wrong() { # wrong NAMED ARGUMENT...: the message names NAMED
  local named=$1
  shift
  expect 2 "$neap" "$@"
  quiet
  says "$named"
}
wrong "verb"
wrong "learn" learn
wrong "learn" help learn
wrong "plan" help train plan
for momentum in 1 2 -0.5; do
  wrong "--momentum $momentum" train --model wrn-10-1 --data synthetic --momentum $momentum
  wrong "--momentum $momentum" plan --model wrn-10-1 --momentum $momentum
done
wrong "--beta2 1" train --model wrn-10-1 --data synthetic --optimizer adamw --beta2 1
wrong "--batch 0" bench --model wrn-10-1 --batch 0
wrong "--steps 0" bench --model wrn-10-1 --steps 0
wrong "--batch needs --model" bench --batch 8
wrong "wrn-10-1" bench wrn-10-1
wrong "nothing-1" bench --model nothing-1 --threads 1
wrong "--model" train --data synthetic
wrong "--data" train --model wrn-10-1
wrong "--budget" train --model wrn-10-1 --data synthetic --budget
wrong "--budget 12parsecs" train --model wrn-10-1 --data synthetic --budget 12parsecs
wrong "--budget -1" plan --model wrn-10-1 --budget -1
wrong "--batch 0" plan --model wrn-10-1 --batch 0
wrong "--batch 1.5" plan --model wrn-10-1 --batch 1.5
wrong "--batch 99999999999999999999" plan --model wrn-10-1 --batch 99999999999999999999
for image in 3 3x32 3x32x32x1 0x32x32 3x-1x32 3x32x 3x32x9999999999 "3 x32x32"; do
  wrong "--image $image" plan --model wrn-10-1 --image "$image"
done
wrong "--classes 0" train --model wrn-10-1 --data synthetic --classes 0
wrong "got 5x32x32" train --model wrn-10-1 --data synthetic --image 5x32x32
wrong "--threads 0" plan --model wrn-10-1 --threads 0
wrong "--threads 4294967297" plan --model wrn-10-1 --threads 4294967297
wrong "threads: 40000" plan --model wrn-10-1 --threads 40000
wrong "threads: 40000" train --model wrn-10-1 --data synthetic --threads 40000
wrong "--lr nan" train --model wrn-10-1 --data synthetic --lr nan
wrong "--shuffle maybe" train --model wrn-10-1 --data synthetic --shuffle maybe
wrong "--nesterov" train --model wrn-10-1 --data synthetic --nesterov=1
wrong "--nesterov" train --model wrn-10-1 --data synthetic --optimizer adamw --nesterov
wrong "--momentum" train --model wrn-10-1 --data synthetic --optimizer adamw --momentum 0.9
wrong "--momentum only applies to --optimizer sgd" plan --model wrn-10-1 --optimizer adamw --momentum 0.5
wrong "--beta2 only applies to --optimizer adamw" train --model wrn-10-1 --data synthetic --beta2 0.99
wrong "--step-factor only applies to --schedule step" train --model wrn-10-1 --data synthetic --step-factor 0.5
wrong "--out" train --model wrn-10-1 --data synthetic --checkpoint-every 5
wrong "--plan p.json" train --model wrn-10-1 --data synthetic --plan p.json --planner evict
wrong "--plan p.json" train --model wrn-10-1 --data synthetic --plan p.json --time-limit 5
for verb in "plan --model wrn-10-1" "curve --model wrn-10-1" "train --model wrn-10-1 --data synthetic"; do
  for limit in 0 -1 soon nan inf ""; do
    # shellcheck disable=SC2086
    wrong "--time-limit $limit" $verb --time-limit "$limit"
  done
done
wrong "--epochs" train --model wrn-10-1 --data synthetic --steps 1 --epochs 1
wrong "--planner guess" plan --model wrn-10-1 --planner guess
wrong "--planner guess" train --model wrn-10-1 --data synthetic --planner guess
wrong "wrn-11-1" plan --model wrn-11-1
wrong "no-such-model" train --model no-such-model --data synthetic
wrong "step file" plan --budget max
wrong "g.json" plan --model wrn-10-1 g.json
wrong "folder" evaluate
wrong "unexpected argument 'other'; use neap evaluate DIR" evaluate one other
wrong "folder" translate
wrong "unexpected argument" translate one other
wrong "--beam 0" translate one --beam 0
wrong "plan file" check g.json
wrong "unexpected argument" check g.json p.json more.json
wrong "-o" graph --model wrn-10-1
wrong ".svg" curve --model wrn-10-1 -o curve.jpeg
wrong "dtr" curve --model wrn-10-1 --planner dtr,dtr
wrong "extra" models extra

for table in models planners ops; do
  expect 0 "$neap" $table --json
  has $table.0.name $table.0.summary
done

# The operators: what they take and are given, in columns.
has ops.0.types.0 ops.0.attributes.0.name ops.0.attributes.0.type ops.0.attributes.0.count
same "$(field ops.0.name) $(field ops.0.attributes.0.name) $(field ops.0.attributes.0.default)" "Conv stride 1" "the first operator"
expect 0 "$neap" ops
grep -q '^Relu  *f32 bf16 f16  max(0, x)$' out || fail "neap ops: Relu has no types"
grep -q '^  *stride integer = 1, dilation integer = 1' out || fail "neap ops: Conv has no attributes"
[ "$(awk 'length > 120' out | wc -l)" = 0 ] || fail "neap ops: a line is longer than 120 columns"

# Threads spin for a moment before they sleep, unless somebody has said how they wait. OpenMP tells what it was given, each
# time it is loaded.
waits() { # waits COUNT-OF-LOADS SPIN-COUNT VARIABLE=VALUE...
  expect 0 env -u OMP_WAIT_POLICY -u GOMP_SPINCOUNT OMP_DISPLAY_ENV=verbose "${@:3}" "$neap" --version
  same "$(grep -c GOMP_SPINCOUNT err)" "$1" "how often OpenMP is loaded with ${*:3}"
  grep GOMP_SPINCOUNT err | tail -1 | grep -qF "'$2'" || fail "OpenMP has another count than $2 with ${*:3}"
}
if OMP_DISPLAY_ENV=verbose "$neap" --version 2>&1 | grep -q GOMP_SPINCOUNT; then
  waits 2 2000 A=1
  waits 1 7 GOMP_SPINCOUNT=7
  expect 0 env -u GOMP_SPINCOUNT OMP_WAIT_POLICY=active OMP_DISPLAY_ENV=verbose "$neap" --version
  same "$(grep -c GOMP_SPINCOUNT err)" 1 "how often OpenMP is loaded with a policy"
fi

# An instruction set that there is not.
expect 2 env NEAP_MAX_CPU_ISA=other "$neap" plan "${small[@]}" --budget max
says "must be amx_bf16, avx512_bf16, avx512, avx2, generic or generic_fma"
quiet

# What the user gave is named as it was given.
for verb in evaluate generate chat predict; do
  more=; [ $verb = predict ] && more='--data synthetic -o x.npy'
  expect 1 "$neap" $verb missing-run $more
  says "neap: missing-run: not the folder of a run"
  ! grep -qF -- "--resume" err || fail "the message of $verb names an option that was not given"
done
expect 1 "$neap" train --resume missing-run
says "--resume missing-run: not the folder of a run"
