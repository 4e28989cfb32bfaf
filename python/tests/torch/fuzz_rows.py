"""What random programs are made of: one row a statement of `forward`.

A row is a weight, a statement, and where it calls a module the text that makes it. Words with a dollar are chosen when the row is:

$a $m $mat $seq $img   the first operand: any tensor of a floating type, of 2 dimensions or more, of 2, 3, or 4
$to                    the same, as what an in-place call changes
$b $c                  another one of the same shape; one that broadcasts with it (a slice, a parameter, a number)
$r $s $t $u            new results
$d $d2 $i $j $k $n     two dimensions, indices in the first, a size from 1 to its size, its size
$lo $len               a range in it
$n0 $n1 $nc            sizes: the first dimension's, the last one's, that of dimension 1
$f $g $w               a number, a number from 0 to 1, a width
$perm $view $at $ix    a permutation, sizes of a view, an index expression, a tensor of indices for $d
$shape $mask           sizes as a list, a boolean tensor of them
$pa $p1 $pio $poi      parameters: [shape], [n1], [n1, w], [w, n1]
$ba $b1 $cnt           buffers: [shape], [n1], a counter
$mod                   a module, by the row's third text"""

from __future__ import annotations

UNARY = [
    "torch.relu($a)", "torch.tanh($a)", "torch.sigmoid($a)", "F.gelu($a)", "F.gelu($a, approximate='tanh')", "F.silu($a)", "F.softplus($a)",
    "F.elu($a)", "F.leaky_relu($a, 0.2)", "F.hardtanh($a, -0.5, 0.5)", "F.hardswish($a)", "F.hardsigmoid($a)", "F.mish($a)", "F.logsigmoid($a)",
    "F.celu($a)", "F.selu($a)", "F.softsign($a)", "F.tanhshrink($a)", "F.softshrink($a, 0.2)", "F.relu6($a)", "F.threshold($a, $f, $f)",
    "torch.exp(-$a.abs())", "torch.log1p($a.abs())", "torch.sqrt($a.abs() + 0.1)", "torch.rsqrt($a.square() + 0.5)", "torch.sin($a)", "torch.cos($a)",
    "torch.erf($a)", "$a ** 2", "torch.tanh($a).pow(3)", "$a.clamp(-0.7, 0.8)", "$a.clamp(min=$f)", "-$a", "$a.abs()", "torch.sign($a) * $a",
    "$a.round() + $a", "torch.nan_to_num($a)", "1 / ($a.square() + 1)", "torch.sinc($a)", "torch.expm1(-$a.abs())", "torch.reciprocal($a.abs() + 0.5)",
    "$a * $f", "$a + $f", "torch.special.i0e($a)", "torch.lgamma($a.abs() + 1)", "torch.atan($a)", "torch.asinh($a)", "$a.sgn() + $a", "$a.square()",
    "torch.logit(torch.sigmoid($a))", "$a.to(torch.float64).to($a.dtype)", "$a.double().float()", "$a.bfloat16().float()",
]  # fmt: skip

BINARY = [
    "$a + $b", "$a - $c", "$a * $b", "$c * $a", "$a / ($c.abs() + 1)", "torch.where($mask, $a, $b)", "torch.where($mask, $a, $c)",
    "torch.where($mask, $a, $f)", "torch.maximum($a, $b)", "torch.minimum($a, $c)", "torch.addcmul($a, $b, $c, value=0.5)", "torch.lerp($a, $b, 0.3)",
    "torch.addcdiv($a, $b, $c.abs() + 1, value=0.5)", "torch.atan2($a, $b.abs() + 0.5)", "torch.hypot($a, $b + 0.5)", "torch.logaddexp($a, $c)",
    "torch.lerp($a, $b, torch.sigmoid($c))", "$a.masked_fill($mask, $f)", "torch.copysign($a, $b)", "torch.fmod($a, 0.7)", "torch.remainder($a, 0.7)",
    "torch.add($a, $b, alpha=$f)", "torch.sub($a, $c, alpha=$f)", "torch.xlogy($a, $b.abs() + 0.5)", "torch.clamp($a, $b - 1, $b + 1)", "$a + $a",
    "$a * $a.detach()", "$a - $a.mean($d, keepdim=True)", "torch.stack([$a, $b], $d).sum($d)", "torch.cat([$a, $b], $d)", "torch.stack([$a, $b], $d)",
    "torch.cat([$a, $a[:1]], 0)", "F.prelu($a, $p1[:1])", "torch.heaviside($a, $b) * $b", "torch.fmax($a, $b)", "torch.dist($a, $b).expand(2)",
    "torch.cross(torch.cat([$a] * 3, 0)[:3], torch.cat([$b] * 3, 0)[:3], 0)", "F.cosine_similarity($a, $b, $d, 1e-3)",
    "F.pairwise_distance($a, $b)", "torch.block_diag($a.flatten(1), $b.flatten(1))", "torch.cartesian_prod($a.flatten()[:3], $b.flatten()[:2])",
]  # fmt: skip

REDUCTIONS = [
    "$a.sum($d)", "$a.sum($d, keepdim=True)", "$a.mean($d)", "$a.mean($d, keepdim=True)", "$a.amax($d)", "$a.amin($d, keepdim=True)", "$a.prod($d)",
    "$a.var($d, unbiased=False)", "torch.sqrt($a.var($d, correction=0) + 0.1)", "$a.logsumexp($d)", "$a.softmax($d)", "$a.log_softmax($d)",
    "$a.cumsum($d)", "torch.tanh($a).cumprod($d)", "$a.logcumsumexp($d)", "($a.square() + 0.01).norm(dim=$d)", "F.normalize($a, dim=$d, eps=1e-2)",
    "torch.linalg.vector_norm($a + 2, 3, $d)", "F.softmin($a, $d)", "$a.nansum($d)", "$a.diff(dim=$d)", "$a.sum() * $b", "$a.mean((0, -1))",
    "$a.median($d).values", "$a.kthvalue($k, $d).values", "$a.quantile(0.3, dim=$d)", "torch.trapezoid($a, dim=$d)", "$a.renorm(2, $d, 1.5)",
    "$a.max() - $a", "$a.std($d, correction=0) + $f", "$a.amax((0, -1), keepdim=True) + $a",
]  # fmt: skip

SEVERAL = [
    "$r, $s = $a.max($d)", "$r, $s = $a.min($d, keepdim=True)", "$r, $s = $a.topk($k, $d)", "$r, $s = $a.sort($d, stable=True)", "$r, $s = $a.cummax($d)",
    "$r, $s = torch.var_mean($a, $d, correction=0)", "$r, $s = torch.std_mean($a + 0.1 * $b, $d, correction=0)", "$r, $s = torch.aminmax($a, dim=$d)",
    "$s, $t = $a.topk($k, $d)\n$r = torch.gather($b, $d, $t)", "$t = $a.argsort($d, stable=True)\n$r = torch.gather($a, $d, $t)", "$r, $s = $a.mode($d)",
    "$r, $s, $t = torch.native_layer_norm($a, [$n1], $p1, $p1, 1e-5)", "$r, $s, $t = torch.native_layer_norm($a, [$n1], None, None, 1e-5)",
    "$r, $s, $t = torch.native_batch_norm($m, None, None, None, None, True, 0.1, 1e-5)", "$r, $s = $a.median($d)", "$r, $s = $a.frexp()",
    "$r, $s = torch.linalg.qr($mat + torch.eye($n0, $n1) * 3)", "$r, $s = torch.native_dropout($a, 0.4, True)", "$r, *_ = $a.unbind($d)",
    "$r, $s, *_ = $a.chunk(2, $d)", "$r, *_, $s = $a.split($k, $d)", "$r, $s = $a.tensor_split([$k], $d)", "$r, $s = $a.chunk(2, $d)\n$r = $r + 1",
    "$r, $s = torch.cat([$a, $b], $d).split([$n, $n], $d)", "$r, $s = torch.cat([$a, $b], $d).chunk(2, $d)\n$t = $r * $s",
    "$r, $s = torch.split(torch.cat([$a, $a], $d), $n, $d)\n$t = $s.square()", "$r, $s = torch.stack([$a, $b]).unbind()\n$t = $r - $s",
    "$r, $s = torch.broadcast_tensors($a, $c)", "$r, $s = torch.meshgrid($a.flatten()[:3], $b.flatten()[:2], indexing='ij')", "$r = torch.hsplit($m, [1])[1]",
]  # fmt: skip

PRODUCTS = [
    "F.linear($a, $poi)", "F.linear($a, $poi).relu_()", "$m @ $pio", "$m @ $m.transpose(-1, -2)", "torch.matmul($a, $p1)", "$mat.t() @ $mat",
    "torch.addmm($p1[:1], $mat, $pio)", "torch.einsum('...i,...j->...ij', $a, $b)", "torch.einsum('...i,ij->...j', $a, $pio)", "torch.mv($mat, $p1)",
    "torch.bmm($seq, $seq.transpose(1, 2))", "torch.baddbmm($seq @ $seq.mT, $seq, $seq.mT, beta=0.5)", "torch.outer($a.flatten()[:3], $b.flatten()[:4])",
    "torch.tensordot($a, $pio, 1)", "torch.kron($a.flatten()[:2], $b)", "torch.cdist($mat, $mat + 1.5)", "torch.matmul($m, $pio).transpose(0, 1)",
    "F.scaled_dot_product_attention($seq, $seq, $seq)", "F.scaled_dot_product_attention($img, $img, $img, is_causal=True)", "F.bilinear($a, $b, torch.outer($p1, $p1)[None])",
    "F.scaled_dot_product_attention($img, $img, $img, dropout_p=0.2)", "torch.linalg.solve($mat.T @ $mat + 2 * torch.eye($n1), $p1)", "torch.vdot($a.flatten(), $b.flatten()).reshape(1)",
    "torch.addmv($p1[:1].expand($n0), $mat, $p1)", "torch.addbmm($seq[0] @ $seq[0].mT, $seq, $seq.mT)", "torch.chain_matmul($mat, $pio)",
]  # fmt: skip

MODULES = [
    (8, "$mod($a)", "nn.Linear($n1, $w)"), (2, "$mod($a)", "nn.Linear($n1, $w, bias=False)"), (3, "$mod($a)", "nn.Linear($n1, $n1)"),
    (2, "$mod($mod($a))", "nn.Linear($n1, $n1)"), (3, "$mod($mat)", "nn.BatchNorm1d($n1)"), (2, "$mod($seq)", "nn.BatchNorm1d($nc)"),
    (1, "$mod($mat)", "nn.BatchNorm1d($n1, track_running_stats=False)"),
    (1, "$mod($mat)", "nn.BatchNorm1d($n1, affine=False)"), (3, "$mod($img)", "nn.BatchNorm2d($nc)"), (1, "$mod($mod($mat))", "nn.BatchNorm1d($n1)"),
    (3, "$mod($a)", "nn.LayerNorm($n1)"), (1, "$mod($a)", "nn.LayerNorm($n1, elementwise_affine=False)"), (1, "$mod($a)", "nn.RMSNorm($n1)"),
    (2, "$mod($img)", "nn.GroupNorm(1, $nc)"), (1, "$mod($seq)", "nn.InstanceNorm1d($nc, affine=True, track_running_stats=True)"), (1, "$mod($img)", "nn.InstanceNorm2d($nc)"),
    (1, "$mod($img)", "nn.LocalResponseNorm(2)"), (4, "$mod($img)", "nn.Conv2d($nc, $w, 3, padding=1)"), (2, "$mod($img)", "nn.Conv2d($nc, $w, 1)"),
    (1, "$mod($img)", "nn.Conv2d($nc, $nc, 3, padding=1, groups=$nc)"), (1, "$mod($img)", "nn.Conv2d($nc, $w, 2, stride=2, bias=False)"), (1, "$mod($img)", "nn.Conv2d($nc, $w, 3, padding=2, dilation=2)"),
    (1, "$mod($img)", "nn.Conv2d($nc, $w, 3, padding=1, padding_mode='circular')"), (1, "$mod($img)", "nn.Conv2d($nc, $w, 3, padding='same')"), (1, "$mod($img)", "nn.ConvTranspose2d($nc, $w, 2, stride=2)"),
    (2, "$mod($seq)", "nn.Conv1d($nc, $w, 3, padding=1)"), (1, "$mod($seq)", "nn.ConvTranspose1d($nc, $w, 2)"), (1, "$mod($img[None])", "nn.Conv3d(1, 2, 1)"),
    (1, "$mod($img).flatten(0, 1)", "nn.MaxPool2d(2, ceil_mode=True)"), (1, "$mod($a)", "nn.PReLU()"), (1, "$mod($to)", "nn.ReLU(inplace=True)"), (1, "$mod($to)", "nn.Hardswish(inplace=True)"),
    (2, "$mod($a)", "nn.Dropout(0.3)"), (1, "$mod($mod($a) + $a)", "nn.Dropout(0.3)"), (1, "$mod($to)", "nn.Dropout(0.3, inplace=True)"), (1, "$mod($a)", "nn.AlphaDropout(0.2)"), (1, "$mod($img)", "nn.Dropout2d(0.4)"),
    (1, "$mod($a)", "nn.RReLU()"), (1, "$mod($to)", "nn.RReLU(inplace=True)"), (2, "$mod(ids)", "nn.Embedding(8, $w)"), (1, "$mod(ids)", "nn.Embedding(8, $w, padding_idx=1)"),
    (1, "$mod(ids)", "nn.EmbeddingBag(8, $w)"), (1, "$mod(ids)", "nn.EmbeddingBag(8, $w, mode='max')"), (1, "$mod(ids, per_sample_weights=torch.sigmoid(ids.to($a.dtype)))", "nn.EmbeddingBag(8, $w, mode='sum')"),
    (1, "$mod(ids, ids)", "nn.Bilinear(ids.shape[-1], ids.shape[-1], $w)"), (1, "$mod($a, $b)", "nn.Bilinear($n1, $n1, 2)"), (1, "$mod($a)", "nn.GLU($d)"), (1, "$mod($a)", "nn.Sequential(nn.Linear($n1, $w), nn.ReLU(inplace=True), nn.Linear($w, $n1))"),
    (1, "$mod($mat)", "nn.Sequential(nn.BatchNorm1d($n1), nn.Dropout(0.2), nn.Linear($n1, $w), nn.GELU())"), (1, "$mod($img)", "nn.Sequential(nn.Conv2d($nc, 3, 3, padding=1), nn.BatchNorm2d(3), nn.ReLU(inplace=True))"),
    (1, "$mod($seq)[0]", "nn.LSTM($n1, 3, batch_first=True)"), (1, "$mod($seq)[0]", "nn.LSTM($n1, 3)"), (1, "$mod($seq)[0]", "nn.LSTM($n1, 3, 2, batch_first=True, bidirectional=True)"), (1, "$mod($seq)[1][1]", "nn.LSTM($n1, 2, 2, dropout=0.3)"),
    (1, "$mod($seq)[0]", "nn.GRU($n1, 3, batch_first=True)"), (1, "$mod($seq)[1]", "nn.GRU($n1, 3, 2)"), (1, "$mod($seq)[0]", "nn.RNN($n1, 3, batch_first=True)"), (1, "$mod($seq)[0]", "nn.RNN($n1, 3, nonlinearity='relu')"), (1, "$mod($mat)[0]", "nn.GRU($n1, 3)"),
    (1, "$mod($mat)[0]", "nn.LSTMCell($n1, 3)"), (1, "$mod($mat)", "nn.GRUCell($n1, 3)"), (1, "$mod($seq, $seq, $seq)[0]", "nn.MultiheadAttention($n1, 1, batch_first=True)"), (1, "$mod($seq, $seq, $seq, need_weights=False)[0]", "nn.MultiheadAttention($n1, 1, dropout=0.2)"),
    (1, "$mod($seq)", "nn.TransformerEncoderLayer($n1, 1, 4, batch_first=True)"), (1, "$mod($seq)", "nn.TransformerEncoderLayer($n1, 1, 4, dropout=0.0, norm_first=True)"), (1, "$mod($a)", "nn.Softmax($d)"), (1, "$mod($seq)", "nn.Upsample(scale_factor=2, mode='linear')"),
]  # fmt: skip

IMAGES = [
    "F.max_pool2d($img, 2)", "F.avg_pool2d($img, 2, ceil_mode=True)", "F.adaptive_avg_pool2d($img, 1)", "F.adaptive_max_pool2d($img, 2)", "F.pixel_unshuffle($img, 2)", "F.pad($a, (1, 1))", "F.pad($a, (1, 0), value=$f)",
    "F.interpolate($img, scale_factor=2, mode='nearest')", "F.interpolate($img, size=(3, 3), mode='bilinear', align_corners=False)", "F.pad($seq, (1, 1), mode='reflect')", "F.pad($img, (1, 1, 1, 1), mode='replicate')",
    "F.interpolate($img, size=(3, 2), mode='bicubic')", "F.pad($img, (1, 1, 0, 1), mode='circular')", "F.unfold($img, 2)", "F.fold(F.unfold($img, 2), $img.shape[-2:], 2)", "F.max_pool1d($seq, 2)", "F.lp_pool1d($seq.abs() + 0.1, 2, 2)", "F.channel_shuffle($img, 1)",
    "F.grid_sample($img, F.affine_grid($img.mean((1, 2, 3))[:, None, None] * 0.1 + torch.eye(2, 3), $img.shape, align_corners=False), align_corners=False)", "F.conv2d($img, $pa[:1, :, :1, :1])", "F.max_unpool2d(*F.max_pool2d($img, 2, return_indices=True), 2, output_size=$img.shape[-2:])",
    "F.grid_sample($img, torch.tanh($img[:, :2].permute(0, 2, 3, 1)), padding_mode='border', align_corners=True)", "F.affine_grid($p1[:1].expand(2, 2, 3), [2, 1, 3, 3], align_corners=False)", "F.conv1d($seq, $seq.detach()[:1, :, :1])", "F.adaptive_avg_pool1d($seq, 2)", "F.fractional_max_pool2d($img, 2, output_size=1)",
]  # fmt: skip

VIEWS = [
    "$a.view($view)", "$a.reshape($view)", "$a.contiguous().view($view)", "$m.transpose($d, $d2)", "$m.t()", "$a.permute($perm)", "$a.narrow($d, $lo, $len)", "$a.select($d, $i)", "$a$at", "$a.unsqueeze($d)", "$a.squeeze()", "$a.flatten()", "$a.flatten(1)",
    "$a[:1].expand($shape)", "$a.unsqueeze(0).expand(2, *$shape)", "$a.unfold($d, $k, 1)", "$m.diagonal()", "$m.diagonal(1)", "$m.diagonal(0, $d, $d2)", "$a.as_strided([2, 2], [1, 1])", "$a.as_strided([$n0], [1], 1)", "$a.chunk(2, $d)[0]", "$a.split($k, $d)[-1]", "$a.unbind($d)[$i]",
    "$m.mT", "$a.movedim($d, $d2)", "$a.swapaxes($d, $d2)", "$a.view_as($b)", "$a.expand_as($b)", "$a.flip($d)", "$a.roll($i, $d)", "$a.repeat(2, *[1] * ($a.dim() - 1))", "$a.repeat_interleave(2, $d)", "$a.index_select($d, $ix)", "$a.take_along_dim($a.argsort($d), $d)", "$a[$ix % $n0]",
    "$a.clone()", "$a.detach()", "$a.contiguous()", "$a.unflatten($d, (-1, 1))", "torch.tile($a, (2,))", "$a.tril() if $a.dim() > 1 else $a", "torch.triu($m)", "$a.take(torch.tensor([0, 1, 0]))", "$a.select_scatter($a.select($d, 0), $d, $i)", "$a.slice_scatter($a.narrow($d, $lo, $len) * 2, $d, $lo, $lo + $len)",
    "$a.rot90(1, (0, -1))", "$a.real", "$a.movedim(0, -1).clone(memory_format=torch.preserve_format)", "torch.atleast_3d($a)", "$a.narrow_copy($d, $lo, $len)", "$a.unsqueeze(-1).expand(*$shape, 2)", "$a.view(-1, $n1)", "$a.mH", "torch.diag_embed($a)", "$a.to_dense()", "$a.reshape(-1)[::2]", "$a.ravel()",
]  # fmt: skip

INPLACE = [
    "$to.add_($c)", "$to.add_($b, alpha=$f)", "$to.mul_($f)", "$to.mul_($c)", "$to.relu_()", "$to.sub_($c)", "$to.div_($c.abs() + 1)", "$to.clamp_(-0.8, 0.9)", "$to.zero_()", "$to.fill_($f)", "$to.tanh_()", "$to.sigmoid_()", "$to.neg_()", "$to.masked_fill_($mask, $f)", "$to.addcmul_($b, $c)",
    "$to.copy_($b)", "$to.copy_($c)", "$to$at = $f", "$to$at *= $f", "$to$at += $f", "$to$at.mul_($f)", "$to$at.relu_()", "$to$at.copy_($to$at * 2)", "$to[:1] = $c[:1]", "$to[..., :1].add_($b[..., :1])", "$to.narrow($d, $lo, $len).mul_($f)", "$to.select($d, $i).add_($f)", "$to.select($d, $i).zero_()",
    "$to.index_put_(($ix % $n0,), $to.detach()[$ix % $n0] * 0.5)", "$to.index_put_(($ix % $n0,), $to.detach()[$ix % $n0], accumulate=True)", "$to.index_add_($d, $ix, $to.detach().index_select($d, $ix))", "$to.index_fill_($d, $ix, $f)", "$to.index_copy_($d, torch.tensor([$i]), $b.narrow($d, $i, 1))",
    "$to.scatter_($d, $to.detach().argsort($d).narrow($d, 0, 1), $f)", "$to.scatter_add_($d, $to.detach().argsort($d), $b)", "$to[$mask] = $f", "$to.lerp_($b, 0.3)", "$to.t().mul_($f)", "$to.transpose($d, $d2).add_($f)", "$to.view(-1)[:2].mul_($f)", "$to.view(-1).add_($f)", "$to.diagonal().zero_()", "$to.diagonal().add_($f)",
    "$to.masked_scatter_($mask, $b)", "$to.as_strided([2], [1]).mul_($f)", "$to.flatten().mul_($f)", "$to.unfold($d, 1, 1).mul_($f)", "$to.chunk(2, $d)[0].add_($f)", "$to.unbind($d)[$i].mul_($f)", "$to.unsqueeze($d).mul_($f)", "$to.detach().mul_($f)", "$to.data.add_($f)", "$to.cumsum_($d)", "$to.pow_(2)", "$to.exp_().clamp_(max=2)",
    "F.relu($to, inplace=True)", "F.leaky_relu($to, 0.1, inplace=True)", "F.dropout($to, 0.3, inplace=True)", "F.hardtanh($to, inplace=True)", "F.elu($to, inplace=True)", "F.silu($to, inplace=True)", "F.threshold($to, 0.1, 0.0, inplace=True)", "torch.rrelu_($to, training=True)", "$to.swapaxes($d, $d2).mul_($c.swapaxes($d, $d2))",
    "$r = $a.clone()\n$r$at = $f", "$r = $a.clone()\n$r$at *= $f", "$r = $a.clone()\n$r$at.add_($f)", "$r = torch.zeros_like($a)\n$r.copy_($b)", "$r = torch.zeros_like($a)\n$r$at = $a$at * 2", "$r = torch.empty_like($a)\n$r.copy_($c)", "$r = $a.new_zeros($shape)\n$r.add_($b)\n$r.mul_($a)", "$r = $a.clone()\n$s = $r$at\n$s.mul_($f)",
    "$r = $a.clone()\n$s = $r.view(-1)\n$r.mul_($f)", "$r = $a * 1\n$s = $r.detach()\n$s.mul_($f)", "$r = $a.clone()\n$r[1:] = $r[:-1].clone()", "$r = torch.cat([$a, $b])\n$s = $r[:1]\n$r.mul_($f)", "$r = $a.clone()\n$r.select($d, $i).copy_($b.select($d, $i))", "$r = $a.expand($shape).clone()\n$r.t().add_($f)",
    "$r = $a.clone()\n$s, *_ = $r.chunk(2, $d)\n$r.mul_($f)", "$r = $a.detach().clone()\n$s, *_ = $r.unbind($d)\n$s.mul_($f)", "$r = torch.empty_strided([2, 3], [4, 1]).fill_($f)\n$r.mul_(2)", "$r = $a.clone()\n$s = $r.unsqueeze(0).expand(2, *$shape)\n$r.add_($f)", "$r = $a.tanh()\n$r.requires_grad_()",
]  # fmt: skip

METADATA = [
    "$r = $a.clone()\n$r.transpose_($d, $d2)", "$r = $mat.clone()\n$r.t_()", "$r = $a.clone()\n$r.unsqueeze_($d)", "$r = $a.unsqueeze(0).clone()\n$r.squeeze_(0)", "$r = $a.clone()\n$r.swapaxes_($d, $d2)", "$r = $a.clone()\n$r.as_strided_([2], [1])", "$r = $a.clone()\n$r.detach_()", "$to.unsqueeze_($d)", "$to.squeeze_()",
    "$r = $a.clone()\n$r.transpose_($d, $d2)\n$r.mul_($f)", "$r = $a.detach().clone()\n$r.resize_(2)", "$r = $a.detach().clone()\n$r.resize_($n0, 1).mul_($f)", "$r = $a.detach().clone()\n$r.set_($b.detach())\n$s = $r * 2", "$to.transpose_($d, $d2)", "$to.swapdims_($d, $d2)",
    "$r = $a.detach().clone()\n$r.t_()\n$s = $r + 1", "$r = $mat.clone()\n$s = $r.view(-1)\n$r.t_()\n$s.mul_($f)", "$r = $mat * 1\n$s = $r.t_() * 2", "$to.t_()", "$to.detach_()", "$r = $a.clone()\n$s = $r$at\n$s.unsqueeze_(0)\n$s.mul_($f)", "$r = torch.empty(0)\n$r.set_($a.detach().clone())",
    "$r = $a.detach().clone()\n$r.data = $b.detach() * 2", "$r = $a.clone()\n$r.moveaxis(0, -1).unsqueeze_(0).mul_($f)", "$r = $a.detach().clone()\n$r.resize_as_($b)", "$r = $a.detach()\n$r.unsqueeze_(0)\n$s = $r * 2", "$r = torch.zeros_like($a).t_() if $a.dim() == 2 else $a.clone()\n$r.add_($f)", "$r = $a.clone().transpose_(0, -1)\n$s = $r.contiguous()",
]  # fmt: skip

OUT = [
    "$r = torch.empty_like($a).contiguous()\ntorch.mul($a.detach(), $f, out=$r.detach())", "$s = $a.detach().sum($d)\n$r = torch.empty_like($s)\ntorch.sum($a.detach(), $d, out=$r)", "$r, $s = $a.detach().sort(dim=$d)\ntorch.sort($a.detach() * 2, dim=$d, out=($r, $s))",
    "$r = torch.cat([$a, $b]).detach()\ntorch.cat([$b.detach(), $a.detach()], out=$r)", "$r, $s = $a.detach().max($d)\ntorch.min($a.detach(), $d, out=($r, $s))",
    "$r = torch.empty_like($a)\ntorch.add($a.detach(), $b.detach(), out=$r)", "$r = torch.zeros_like($m).detach()\ntorch.mul($m.detach()[:1], $f, out=$r[:1])", "torch.mul($ba, 0.5, out=$ba)",
    "torch.add($b1, $a.detach().flatten()[0], out=$b1)", "$r = torch.empty($n0, $w, dtype=$a.dtype)\ntorch.mm($mat.detach(), $pio.detach(), out=$r)",
    "with torch.no_grad():\n    $r = torch.empty_like($a)\n    torch.tanh($a, out=$r)", "$r = $a.detach().clone()\ntorch.sigmoid($r, out=$r)", "$r = torch.empty_like($m).detach()\ntorch.exp($m.detach().clamp(max=1), out=$r)",
]  # fmt: skip

RANDOM = [
    "$r = F.dropout($a, 0.4)", "$r = F.dropout($a, 0.4, training=self.training)", "$r = $a * torch.rand_like($a)", "$r = $a + torch.randn_like($a) * 0.1", "$r = $a * torch.bernoulli(torch.full_like($a, 0.6))", "$r = $a + torch.randn($n1, dtype=$a.dtype) * 0.1", "$r = $a[torch.randperm($n0)]", "$r = F.rrelu($a, training=True)", "$r = F.alpha_dropout($a, 0.3, True)",
    "$r = $a.index_select($d, torch.multinomial(torch.ones($n), $k))", "$r = $m[:, torch.multinomial($m.detach().flatten(1).softmax(1).mean(0), 2) % $nc]", "$r = F.gumbel_softmax($a, dim=$d)", "$r = $a + torch.empty_like($a).uniform_(-0.1, 0.1)", "$r = $a + torch.empty_like($a).normal_()", "$r = $a * torch.randint(0, 2, $shape)", "$r = F.feature_alpha_dropout($m, 0.3, True)",
    "$r = torch.normal($a.detach(), 0.1) + $a", "$r = $a * torch.empty($shape).bernoulli_(0.7)", "$r = $a + torch.empty_like($a).exponential_().clamp_(max=2)", "$r = F.dropout1d($seq, 0.3)", "$r = $a * torch.bernoulli(torch.sigmoid($a.detach()))", "$r = $a + torch.rand(())", "$r = $a + torch.poisson(torch.ones_like($a))", "$r = torch.rand_like($a)\n$s = $r * $a", "$to.detach().normal_()", "$r = F.dropout(F.dropout($a, 0.3), 0.3)",
    "$r = torch.dropout($a, 0.3, True)\n$s = $r * torch.rand_like($r)", "$r = torch.zeros_like($a)\n$r.bernoulli_(0.5)\n$s = $r * $a", "$r = $a * torch.rand(2)[0]", "$r = $a + torch.empty_like($a).random_(3)", "$r = torch.empty_like($a).log_normal_().clamp_(max=3) * $a", "$r = torch.empty_like($a).geometric_(0.5).clamp_(max=3) * $a", "$r = torch.distributions.Normal($a, 1.0, validate_args=False).rsample()",
]  # fmt: skip

BUFFERS = [
    "$b1.mul_(0.9).add_($m.detach().flatten(0, -2).mean(0), alpha=0.1)", "$b1.copy_($m.detach().flatten(0, -2).mean(0))\n$r = $a - $b1", "$cnt.add_(1)", "$cnt += 1\n$r = $a * (1 / $cnt)", "$r = $a + $b1", "$r = $a * $ba", "$ba.lerp_($a.detach(), 0.2)\n$r = $a - $ba", "$ba.copy_($a.detach())", "$ba$at = $f\n$r = $a + $ba", "$b1[:1] = $a.detach().flatten()[:1]",
    "$b1.zero_()\n$b1.add_($a.detach().flatten()[0])\n$r = $a * $b1", "$r = $b1.clone()\n$b1.add_(0.1)\n$s = $a * $r", "$r = $b1 * 2\n$b1.mul_(0.5)\n$s = $a + $r + $b1", "$b1.normal_()\n$r = $a + $b1 * 0.1", "$b1.uniform_(0, 1)\n$r = $a * $b1",
    "$ba.roll(1, 0)\n$ba[1:] = $ba[:-1].clone()\n$ba[:1] = $a.detach()[:1]\n$r = $a + $ba", "with torch.no_grad():\n    $b1.mul_(0.5).add_($p1)\n$r = $a * $b1", "$b1.index_add_(0, torch.tensor([0]), $a.detach().flatten()[:1])", "$ba.masked_fill_($mask, $f)\n$r = $a + $ba", "$ba[$cnt.long() % $n0] = $f\n$cnt.add_(1)\n$r = $a + $ba",
    "$r = torch.where($cnt > 1, $a, $a * $f)\n$cnt.add_(1)", "$ba.as_strided([1], [1]).add_(1)\n$r = $a + $ba", "with torch.no_grad():\n    $p1.clamp_(-0.3, 0.3)\n$r = $a * $p1", "with torch.no_grad():\n    $p1.mul_(0.99)\n$r = $a + $p1", "$r = $a + $b1.detach().add_(0.1)", "$r = $ba.view(-1)\n$r.add_(0.1)\n$s = $a + $ba",
]  # fmt: skip

LOSSES = [
    "F.mse_loss($a, $b)", "F.mse_loss($a, $b.detach(), reduction='sum') * 0.1", "F.mse_loss($a, torch.zeros_like($a), reduction='none')", "F.smooth_l1_loss($a, $b)", "F.smooth_l1_loss($a, $c.expand_as($a).detach(), beta=0.5)", "F.huber_loss($a, $b, delta=0.5)", "F.l1_loss($a, $b + 1)", "F.binary_cross_entropy_with_logits($a, torch.sigmoid($b))", "F.binary_cross_entropy(torch.sigmoid($a), torch.sigmoid($b).detach())",
    "F.kl_div($a.log_softmax(-1), $b.softmax(-1), reduction='batchmean')", "F.cross_entropy($mat, torch.arange($n0) % $n1)", "F.cross_entropy($mat, $mat.detach().softmax(1), label_smoothing=0.1)", "F.cross_entropy($mat, torch.arange($n0) % $n1, ignore_index=1, reduction='sum')", "F.nll_loss($mat.log_softmax(1), torch.arange($n0) % $n1, weight=torch.ones($n1))", "F.soft_margin_loss($a, torch.sign($b.detach()))",
    "F.poisson_nll_loss($a.clamp(max=2), $b.detach().abs())", "F.gaussian_nll_loss($a, $b, $b.abs() + 0.5)", "F.hinge_embedding_loss($a, torch.sign($b.detach()))", "F.triplet_margin_loss($mat, $mat + $p1, $mat - 1)", "F.multi_margin_loss($mat, torch.arange($n0) % $n1)", "F.ctc_loss($mat.log_softmax(1)[:, None], torch.ones(1, 1, dtype=torch.long), [$n0], [1])", "F.margin_ranking_loss($a, $b, torch.sign($b.detach()))", "F.multilabel_soft_margin_loss($mat, $mat.detach().sigmoid())",
]  # fmt: skip

MAKING = [
    "$a + torch.arange($n1)", "$a * torch.linspace(0, 1, $n1)", "$a * torch.hann_window($n1)", "$mat @ torch.eye($n1, $w, dtype=$a.dtype)", "$a + torch.full_like($a, $f)", "$a * torch.ones($n1)", "$a + torch.zeros($shape)", "$a + torch.tensor($f)", "$a * torch.tensor([$f] * $n1)", "$a.new_tensor([$f, 1.0])", "$a.new_full($shape, $f) * $b", "F.one_hot(ids, 8).to($a.dtype)", "$m.masked_fill(torch.ones($shape, dtype=torch.bool).triu(1), 0.0)",
    "torch.bucketize($a.detach(), torch.tensor([-0.5, 0.5])).to($a.dtype) + $a", "$a.detach().argmax($d).to($a.dtype)", "torch.gather($a, -1, ($a.argmax(-1, keepdim=True) + 1) % $n1)", "($a > 0).to($a.dtype) * $b", "$a * ($a.detach() > $a.detach().mean())", "torch.searchsorted(torch.linspace(-1, 1, 4), $a.detach().float().contiguous()).to($a.dtype)", "torch.zeros_like($a).scatter($d, $a.argsort($d), $b)", "torch.zeros_like($a).scatter_reduce($d, $a.argsort($d), $b, 'amax')",
    "torch.zeros_like($a).index_add($d, $ix, $a.index_select($d, $ix))", "$a.index_put(($ix % $n0,), $a[$ix % $n0], accumulate=True)", "$a.scatter_add(0, torch.zeros_like($a, dtype=torch.long), $b)", "$a.isfinite().to($a.dtype) * $a", "torch.where(ids[..., :1].expand_as(ids) > 3, $f, 1.0).to($a.dtype)", "torch.vander($p1)", "torch.logspace(0, 0.5, $n1) * $a", "torch.ones_like($a).cumsum($d) * $a", "$a.masked_fill(torch.zeros_like($a).bool(), 1)", "torch.hamming_window($n1, dtype=$a.dtype) + $a",
]  # fmt: skip

COMPLEX = [
    "torch.fft.rfft($a).abs()", "torch.fft.fft($a).real", "torch.fft.ifft(torch.fft.fft($a) * $f).real", "torch.view_as_real(torch.fft.rfft($a))", "torch.fft.irfft(torch.fft.rfft($a), $n1)", "torch.view_as_real(torch.complex($a, $b) * torch.complex($b, $a))", "torch.complex($a, $b).abs()", "torch.polar($a.abs(), $b).imag", "torch.fft.fft2($m).real", "torch.stft($a.flatten()[:8], 4, window=torch.hann_window(4), return_complex=True, center=False).abs()", "torch.view_as_complex(torch.stack([$a, $b], -1)).angle()",
]  # fmt: skip

AUTOGRAD = [
    "$r = Scaled.apply($a, $f)", "$r, $s = Pair.apply($a, $b)", "$r = $a.clone()\n$r = Doubled.apply($r)", "$r = Straight.apply($a)", "$r = Product.apply($a, $b)", "$r = $a * 1\n$r.requires_grad and $r.register_hook(lambda g: g * 0.5)", "$r = $a + ($a.round() - $a).detach()", "with torch.no_grad():\n    $r = $a * $f\n    $r.add_(1)", "with torch.enable_grad():\n    $r = $a * $f", "$r = $a.detach().requires_grad_()\n$s = $r * $p1",
    "with torch.enable_grad():\n    $s = $a.detach().requires_grad_()\n    $t = torch.autograd.grad(($s.square() * $p1.detach()).sum(), $s)[0]\n$r = $a + $t", "$s = $a * $p1\n$t = torch.autograd.grad($s.tanh().sum(), $s, create_graph=True)[0]\n$r = $t.square()", "$r = torch.vmap(lambda t: t.tanh() * 2)($a)", "$r = torch.func.grad(lambda t: t.square().sum())($a.detach())", "$r = Checked.apply($a, $b, None)", "$r = Frozen.apply($a)[0]",
]  # fmt: skip

# What the guides refuse by name: memory that grows, buffers that lie otherwise, a batch that is changed.
REFUSED = [
    "$b1.resize_(2).fill_($f)\n$r = $a * $b1[0]",
    "$ba.resize_($n0).fill_($f)",
    "$ba.t_()",
    "$ba.unsqueeze_(0)\n$r = $a + $ba.sum()\n$ba.squeeze_(0)",
    "$ba.set_($a.detach().clone())",
    "$b1.data = $b1 * 0.5\n$r = $a + $b1",
    "$r = $a.detach().clone()\n$r.resize_(40).fill_($f)",
    "$r = torch.zeros(0)\n$r.resize_($n0).fill_($f)",
    "$r = torch.empty(0, dtype=$a.dtype)\ntorch.mul($a.detach(), $f, out=$r)",
    "$r = torch.empty(0, dtype=$a.dtype)\ntorch.cat([$a.detach(), $b.detach()], out=$r)",
    "$r = torch.empty(0, dtype=$a.dtype)\n$s = torch.empty(0, dtype=torch.long)\ntorch.max($a.detach(), $d, out=($r, $s))",
    "$r = torch.empty(0, dtype=$a.dtype)\ntorch.sum($a.detach(), $d, out=$r)",
    "$r = torch.empty(0, dtype=$a.dtype)\n$s = torch.empty(0, dtype=torch.long)\ntorch.sort($a.detach(), dim=$d, out=($r, $s))",
    "x.mul_($f)", "x$at.relu_()",
]  # fmt: skip

DEPENDENT = ["$r = $a[$mask]", "$r = $a * $a.detach().mean().item()", "$r = $a.detach().nonzero().to($a.dtype)", "if $a.detach().sum() > 0:\n    $r = $a * 2", "$r = $a.detach().unique()", "$r = $a * float($a.detach()[..., 0].sum())"]  # fmt: skip


def _results(weight: float, expressions: list[str]) -> list[tuple[float, str, str | None]]:
    return [(weight / len(expressions), f"$r = {e}", None) for e in expressions]


def _statements(weight: float, statements: list[str]) -> list[tuple[float, str, str | None]]:
    return [(weight / len(statements), s, None) for s in statements]


# Weights of families are shares of 100.
ROWS: list[tuple[float, str, str | None]] = [
    *_results(9, UNARY), *_results(9, BINARY), *_results(5, REDUCTIONS), *_statements(6, SEVERAL), *_results(5, PRODUCTS), *_results(3, IMAGES),
    *_results(10, VIEWS), *_statements(13, INPLACE), *_statements(4, METADATA), *_statements(2, OUT), *_statements(4, RANDOM), *_statements(5, BUFFERS),
    *_results(2, LOSSES), *_results(3, MAKING), *_results(0.7, COMPLEX), *_statements(2.5, AUTOGRAD), *_statements(0.08, DEPENDENT), *_statements(0.3, REFUSED), (0.05, "$r = $mod($mat)", "nn.BatchNorm1d($n1, momentum=None)"),
    (0.05, "$r = $mod(ids)", "nn.Embedding(8, $w, max_norm=0.8)"),
    *((16 * w / sum(w for w, *_ in MODULES), f"$r = {statement}", module) for w, statement, module in MODULES),
]  # fmt: skip

REGIONS = [(2, "autocast"), (1, "no_grad"), (2, "checkpoint"), (1, "reentrant")]

# Classes that statements name; each is written into the programs that do.
PRELUDE = {
    "Scaled": """
class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, factor):
        ctx.factor = factor
        return a * factor

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None
""",
    "Pair": """
class Pair(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b):
        ctx.save_for_backward(a, b)
        ctx.set_materialize_grads(False)
        return a * b, a + b

    @staticmethod
    def backward(ctx, g, h):
        a, b = ctx.saved_tensors
        g = torch.zeros_like(a) if g is None else g
        h = torch.zeros_like(a) if h is None else h
        return g * b + h, g * a + h
""",
    "Doubled": """
class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        ctx.mark_dirty(a)
        return a.mul_(2)

    @staticmethod
    def backward(ctx, g):
        return g * 2
""",
    "Straight": """
class Straight(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        return a.sign()

    @staticmethod
    def backward(ctx, g):
        return g.clamp(-1, 1)
""",
    "Product": """
class Product(torch.autograd.Function):
    @staticmethod
    def forward(a, b):
        return a * b

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, g):
        a, b = ctx.saved_tensors
        return g * b if ctx.needs_input_grad[0] else None, g * a if ctx.needs_input_grad[1] else None
""",
    "Checked": """
class Checked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a, b, c):
        out = a.tanh()
        ctx.save_for_backward(out, b)
        ctx.other = c
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, g):
        out, b = ctx.saved_tensors
        return g * (1 - out * out), None, None
""",
    "Frozen": """
class Frozen(torch.autograd.Function):
    @staticmethod
    def forward(ctx, a):
        where = a.argmax(0)
        ctx.mark_non_differentiable(where)
        ctx.save_for_backward(where)
        ctx.shape = a.shape
        return a.amax(0), where

    @staticmethod
    def backward(ctx, g, _):
        (where,) = ctx.saved_tensors
        return torch.zeros(ctx.shape, dtype=g.dtype).scatter_(0, where.unsqueeze(0), g.unsqueeze(0))
""",
}

OPTIMIZERS = [
    (3, "torch.optim.SGD(parameters, lr=0.05)"), (3, "torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=1e-3)"), (1, "torch.optim.SGD(parameters, lr=0.05, momentum=0.9, nesterov=True, foreach=True)"),
    (1, "torch.optim.SGD(parameters, lr=0.05, momentum=0.9, fused=True)"), (3, "torch.optim.AdamW(parameters, lr=1e-2)"), (1, "torch.optim.Adam(parameters, lr=1e-2, fused=True)"), (1, "torch.optim.Adam(parameters, lr=1e-2, foreach=True, amsgrad=True)"),
    (1, "torch.optim.Adagrad(parameters, lr=0.05)"), (1, "torch.optim.RMSprop(parameters, lr=1e-2, momentum=0.5, centered=True)"), (0.5, "torch.optim.Adamax(parameters)"), (0.5, "torch.optim.NAdam(parameters)"), (0.5, "torch.optim.Adadelta(parameters)"),
]  # fmt: skip

# Of a result $v and a target y of [rows]
TERMS = [
    (5, "$v.square().mean()"), (2, "$v.mean()"), (2, "F.mse_loss($v.flatten(1).mean(1), y)"), (1, "F.mse_loss($v, torch.zeros_like($v))"), (1, "F.smooth_l1_loss($v.flatten(1).sum(1), y)"), (1, "F.cross_entropy($v.flatten(1), ids[:, 0] % $v[0].numel())"),
    (1, "F.binary_cross_entropy_with_logits($v.flatten(1).mean(1), y.sigmoid())"), (1, "($v - 0.3).abs().mean()"), (1, "$v.logsumexp(-1).mean()"), (1, "($v.flatten(1).mean(1) * y).mean()"), (1, "$v.sum() * 0.05"), (0.5, "$v.float().std(correction=0)"),
]  # fmt: skip
