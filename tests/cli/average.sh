# Weights of the last epochs' ends: what stays, in runs that were interrupted too, and their mean.
source "$(dirname "$0")/common.bash"

drawn=("$neap" train "${small[@]}" --data synthetic:images=40 --schedule constant)
kept() { (cd "$1" && echo epoch-*); }

expect 0 "${drawn[@]}" --epochs 4 --keep-epochs 2 --out whole --json
weights=$(field weights_sha256)
same "$(kept whole)" "epoch-3.safetensors epoch-4.safetensors" "what was kept"
cmp whole/epoch-4.safetensors whole/weights-*.safetensors || fail "the last that was kept is not the checkpoint's"

# In parts: the files are the same, and one that a killed run did not write is made up for.
expect 0 "${drawn[@]}" --steps 13 --keep-epochs 2 --out parts
same "$(kept parts)" "epoch-1.safetensors epoch-2.safetensors" "what was kept within an epoch"
expect 0 "$neap" train --resume parts --epochs 3
expect 0 "$neap" train --resume parts --epochs 4
rm parts/epoch-4.safetensors
expect 0 "$neap" train --resume parts
same "$(kept parts)" "$(kept whole)" "what a run in parts kept"
for file in $(kept whole); do cmp "whole/$file" "parts/$file" || fail "$file of a run in parts"; done

# One file is itself; a mean is another network, and evaluating changes nothing.
cp -r whole before
expect 0 "$neap" evaluate whole --average 1 --json
same "$(field weights_sha256)" "$weights" "the mean of one"
expect 0 "$neap" evaluate whole --average 2 --json
mean=$(field weights_sha256)
[ "$mean" != "$weights" ] || fail "the mean of two is one of them"
expect 0 "$neap" evaluate whole --json
same "$(field weights_sha256)" "$weights" "the checkpoint itself"
expect 0 "$neap" evaluate parts --average 2 --json
same "$(field weights_sha256)" "$mean" "the mean of a run in parts"
diff -r whole before || fail "an evaluation has changed the checkpoint"
expect 2 "$neap" evaluate whole --average 3
says "of 2 epochs' ends, not of 3; train with --keep-epochs 3"

# What is replaced by another run takes them with it.
expect 0 "${drawn[@]}" --steps 2 --out whole --force
same "$(kept whole)" "epoch-*" "what is left of a run that was replaced"
expect 2 "${drawn[@]}" --steps 2 --keep-epochs 2
says "--keep-epochs needs a folder"
