# The verbs that run a model tell the same things by the same names.
source "$(dirname "$0")/common.bash"

seq -s ' ' 1 600 >text
expect 0 "$neap" train --model gpt-1x32x2 --data text:text --length 16 --batch 4 --steps 2 --threads 1 --out run --json
has model data checkpoint steps step_seconds_median test_loss perplexity process_peak_bytes weights_sha256
loss=$(field test_loss) perplexity=$(field perplexity) weights=$(field weights_sha256)
awk "BEGIN { exit !($perplexity / exp($loss) < 1.0001 && $perplexity / exp($loss) > 0.9999) }" || fail "perplexity $perplexity of a loss of $loss"
expect 0 "$neap" evaluate run --json
has model records process_peak_bytes
same "$(field checkpoint) $(field data) $(field perplexity) $(field weights_sha256)" "run text:$PWD/text $perplexity $weights" "what evaluate says"
same "$(field records)" "$(field images)" "records by their old name"
expect 0 "$neap" generate run --tokens 3 --json
has model checkpoint data process_peak_bytes
expect 0 "$neap" train --model lenet --data synthetic:images=64 --batch 16 --steps 4 --threads 1 --out pictures --json
has data checkpoint
expect 0 "$neap" predict pictures --data synthetic:images=64 -o out.npy --json
has model data checkpoint records process_peak_bytes
expect 0 "$neap" bench --model lenet --batch 8 --steps 3 --threads 1 --json
same "$(field step_seconds_median)" "$(field step_seconds)" "the median of a step by its old name"
expect 2 "$neap" evaluate --json
has error exit_status
