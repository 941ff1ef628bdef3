"""Sample calls for the public names of PyTorch that its own samples leave out: the table of torch_coverage.py.

SAMPLES[section][name] is a Python expression, or statements that set `r`. It may use

    x y float32 (12,)         m n float32 (4, 4), symmetric and positive definite     i int64 (12,) from 0 to 5
    b bool (12,)              c complex64 (12,)         u uint8 (12,)     t float32 (2, 3, 8)      im float32 (2, 4, 8, 8)
    q quantised (12,)         sp sparse (4, 4)          f Python float    k Python int
    g Generator               folder: path of an empty folder             F torch.nn.functional

NOT_CALLED[section][why] are the names that have no call here.
"""

from numpy_samples import family, rows

SAMPLES = {}
NOT_CALLED = {}


def section(title):
    NOT_CALLED[title] = {}
    return SAMPLES.setdefault(title, {})


ELSEWHERE = "another device or library"
GONE = "there to raise"
SCRIPT = "for TorchScript's compiler"
TRAINING = "for gradients, loading or first-class dimensions"

# ---- torch

own = section("torch")
NOT_CALLED["torch"] = {
    ELSEWHERE: """batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
    batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats cudnn_affine_grid_generator cudnn_batch_norm
    cudnn_convolution cudnn_convolution_add_relu cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler
    cudnn_is_acceptable fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation fbgemm_linear_int8_weight
    fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight fbgemm_pack_gemm_matrix_fp16
    fbgemm_pack_quantized_matrix get_autocast_gpu_dtype get_autocast_ipu_dtype get_autocast_xla_dtype get_device_module
    is_autocast_ipu_enabled is_autocast_xla_enabled miopen_batch_norm miopen_convolution miopen_convolution_add_relu
    miopen_convolution_relu miopen_convolution_transpose miopen_ctc_loss miopen_depthwise_convolution miopen_rnn
    mkldnn_adaptive_avg_pool2d mkldnn_convolution mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d
    mkldnn_rnn_layer profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 quantized_gru quantized_gru_cell quantized_lstm
    quantized_lstm_cell quantized_rnn_relu_cell quantized_rnn_tanh_cell set_autocast_gpu_dtype set_autocast_ipu_dtype
    set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled""",
    GONE: "eig lstsq matrix_rank solve symeig saddmm indices_copy values_copy",
    SCRIPT: """fork import_ir_module import_ir_module_from_buffer merge_type_from_type_comment parse_ir parse_schema
    parse_type_comment unify_type_list wait get_file_path""",
    "settings of the whole process": """init_num_threads prepare_multiprocessing_environment set_num_interop_threads
    set_default_tensor_type autocast_decrement_nesting autocast_increment_nesting clear_autocast_cache""",
    "for what works on symbols or shards": """sym_constrain_range sym_constrain_range_for_size sym_fresh_size classproperty cond
    while_loop choose_qparams_optimized compile""",
}
rows(
    own,
    """
    adaptive_max_pool1d          torch.adaptive_max_pool1d(t, 3)
    affine_grid_generator        torch.affine_grid_generator(t[:, :2, :3], [2, 3, 4, 4], True)
    alpha_dropout                torch.alpha_dropout(x, 0.3, True)
    alpha_dropout_               torch.alpha_dropout_(x, 0.3, True)
    as_tensor                    torch.as_tensor([f, 1.0])
    asarray                      torch.asarray([1.0, 2.0])
    binomial                     torch.binomial(torch.full((3,), 5.0), torch.full((3,), 0.5), g)
    can_cast                     torch.can_cast(x.dtype, torch.float64)
    ccol_indices_copy            torch.ccol_indices_copy(sp.to_sparse_csc())
    chain_matmul                 torch.chain_matmul(m, n, m)
    col_indices_copy             torch.col_indices_copy(sp.to_sparse_csr())
    compiled_with_cxx11_abi      torch.compiled_with_cxx11_abi()
    conv_tbc                     torch.conv_tbc(t, torch.ones(2, 8, 5), torch.ones(5), 0)
    convolution                  torch.convolution(im, torch.ones(5, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 1)
    cosine_embedding_loss        torch.cosine_embedding_loss(m, n, torch.ones(4))
    crow_indices_copy            torch.crow_indices_copy(sp.to_sparse_csr())
    ctc_loss                     torch.ctc_loss(t.log_softmax(2), i[:6].reshape(3, 2) + 1, i[:3] * 0 + 2, i[:3] * 0 + 2)
    dequantize                   torch.dequantize(q)
    detach                       torch.detach(x)
    detach_                      torch.detach_(x)
    detach_copy                  torch.detach_copy(x)
    dropout                      torch.dropout(x, 0.5, True)
    dropout_                     torch.dropout_(x, 0.5, True)
    dsmm                         torch.dsmm(sp, m)
    einsum                       torch.einsum("ij,jk->ik", m, n)
    embedding_bag                torch.embedding_bag(t[0], i[:3] % 3, i[:1] * 0)
    embedding_renorm_            torch.embedding_renorm_(m, i[:4] % 4, 1.0, 2.0)
    empty_quantized              torch.empty_quantized([3], q)
    fake_quantize_per_channel_affine torch.fake_quantize_per_channel_affine(m, m[0].abs(), i[:4].int() * 0, 0, 0, 255)
    fake_quantize_per_tensor_affine  torch.fake_quantize_per_tensor_affine(x, 0.1, 0, 0, 255)
    feature_alpha_dropout        torch.feature_alpha_dropout(t, 0.5, True)
    feature_alpha_dropout_       torch.feature_alpha_dropout_(t, 0.5, True)
    feature_dropout              torch.feature_dropout(t, 0.5, True)
    feature_dropout_             torch.feature_dropout_(t, 0.5, True)
    frobenius_norm               torch.frobenius_norm(m, [0, 1])
    from_dlpack                  torch.from_dlpack(x)
    from_file                    torch.from_file(folder + "/x.bin", shared=True, size=3)
    from_numpy                   torch.from_numpy(x.numpy())
    frombuffer                   torch.frombuffer(bytearray(8), dtype=torch.float32)
    get_autocast_dtype           torch.get_autocast_dtype("cpu")
    get_device                   torch.get_device(x)
    grid_sampler                 torch.grid_sampler(im, im[:, :2].permute(0, 2, 3, 1), 0, 0, True)
    gru_cell                     torch.gru_cell(m, n, torch.ones(12, 4), torch.ones(12, 4))
    hspmm                        torch.hspmm(sp, m)
    hsmm                         torch.hsmm(sp, m)
    int_repr                     torch.int_repr(q)
    is_autocast_enabled          torch.is_autocast_enabled()
    is_complex                   torch.is_complex(x)
    is_conj                      torch.is_conj(x)
    is_distributed               torch.is_distributed(x)
    is_floating_point            torch.is_floating_point(x)
    is_inference                 torch.is_inference(x)
    is_neg                       torch.is_neg(x)
    is_nonzero                   torch.is_nonzero(x[0])
    is_same_size                 torch.is_same_size(x, y)
    is_signed                    torch.is_signed(x)
    is_storage                   torch.is_storage(x)
    is_tensor                    torch.is_tensor(x)
    kl_div                       torch.kl_div(x, y)
    load                         torch.save(x, folder + "/x.pt"); r = torch.load(folder + "/x.pt")
    lobpcg                       torch.lobpcg(torch.eye(9) * 2, 1)
    lstm_cell                    torch.lstm_cell(m, (m, n), torch.ones(16, 4), torch.ones(16, 4))
    manual_seed                  torch.manual_seed(3); r = torch.rand(2)
    margin_ranking_loss          torch.margin_ranking_loss(x, y, x.sign())
    max_pool1d                   torch.max_pool1d(t, 2)
    max_pool1d_with_indices      torch.max_pool1d_with_indices(t, 2)
    max_pool2d                   torch.max_pool2d(im, 2)
    max_pool3d                   torch.max_pool3d(im, 2)
    native_channel_shuffle       torch.native_channel_shuffle(im, 2)
    native_dropout               torch.native_dropout(x, 0.5, True)
    native_norm                  torch.native_norm(sp)
    norm_except_dim              torch.norm_except_dim(m, 2, 0)
    normal                       torch.normal(0.0, 1.0, (3, 4))
    nuclear_norm                 torch.nuclear_norm(m)
    numel                        torch.numel(x)
    pca_lowrank                  torch.pca_lowrank(m, 2)
    poisson                      torch.poisson(x.abs())
    poisson_nll_loss             torch.poisson_nll_loss(x, y.abs(), True, False, 1e-8, 1)
    polygamma                    torch.polygamma(1, x.abs())
    promote_types                torch.promote_types(x.dtype, torch.float64)
    quantize_per_channel         torch.quantize_per_channel(m, torch.ones(4), torch.zeros(4), 0, torch.quint8)
    quantize_per_tensor          torch.quantize_per_tensor(x, 0.1, 10, torch.quint8)
    quantize_per_tensor_dynamic  torch.quantize_per_tensor_dynamic(x, torch.quint8, False)
    quantized_batch_norm         torch.quantized_batch_norm(q.reshape(1, 12, 1, 1), x, x, x, x.abs(), 1e-5, 0.1, 1)
    quantized_max_pool1d         torch.quantized_max_pool1d(q.reshape(1, 1, 12), 2)
    quantized_max_pool2d         torch.quantized_max_pool2d(q.reshape(1, 1, 3, 4), 2)
    quantized_max_pool3d         torch.quantized_max_pool3d(q.reshape(1, 1, 1, 3, 4), [1, 2, 2])
    rand                         torch.rand(3, 4)
    randperm                     torch.randperm(8)
    range                        torch.range(0, 3)
    resize_as_sparse_            torch.resize_as_sparse_(sp.clone(), sp)
    result_type                  torch.result_type(x, 1.5)
    row_indices_copy             torch.row_indices_copy(sp.to_sparse_csc())
    save                         torch.save(x, folder + "/y.pt"); r = 1
    segment_reduce               torch.segment_reduce(x, "sum", lengths=torch.tensor([5, 7]))
    select_copy                  torch.select_copy(m, 0, 1)
    set_rng_state                torch.set_rng_state(torch.get_rng_state()); r = 1
    set_autocast_dtype           torch.set_autocast_dtype("cpu", torch.bfloat16); r = 1
    set_autocast_enabled         torch.set_autocast_enabled("cpu", False); r = 1
    set_autocast_cache_enabled   torch.set_autocast_cache_enabled(True); r = 1
    set_autocast_cpu_dtype       torch.set_autocast_cpu_dtype(torch.bfloat16); r = 1
    set_autocast_cpu_enabled     torch.set_autocast_cpu_enabled(False); r = 1
    set_anomaly_enabled          torch.set_anomaly_enabled(False); r = 1
    set_default_device           torch.set_default_device(None); r = 1
    set_default_dtype            torch.set_default_dtype(torch.float32); r = 1
    set_deterministic_debug_mode torch.set_deterministic_debug_mode(0); r = 1
    set_float32_matmul_precision torch.set_float32_matmul_precision("highest"); r = 1
    set_flush_denormal           torch.set_flush_denormal(False); r = 1
    set_num_threads              torch.set_num_threads(1); r = 1
    set_printoptions             torch.set_printoptions(profile="default"); r = 1
    set_warn_always              torch.set_warn_always(False); r = 1
    use_deterministic_algorithms torch.use_deterministic_algorithms(False); r = 1
    slice_copy                   torch.slice_copy(x, 0, 1, 5)
    slice_inverse                torch.slice_inverse(x[1:5], x, 0, 1, 5)
    slogdet                      torch.slogdet(m)
    smm                          torch.smm(sp, m)
    sparse_bsc_tensor            torch.sparse_bsc_tensor([0, 1], [0], [[[1.0]]], (1, 1))
    sparse_bsr_tensor            torch.sparse_bsr_tensor([0, 1], [0], [[[1.0]]], (1, 1))
    sparse_compressed_tensor     torch.sparse_compressed_tensor([0, 1], [0], [1.0], (1, 1), layout=torch.sparse_csr)
    sparse_coo_tensor            torch.sparse_coo_tensor([[0, 1]], [1.0, 2.0], (3,))
    sparse_csc_tensor            torch.sparse_csc_tensor([0, 1], [0], [1.0], (1, 1))
    sparse_csr_tensor            torch.sparse_csr_tensor([0, 1], [0], [1.0], (1, 1))
    split_copy                   torch.split_copy(x, 4)
    spmm                         torch.spmm(sp, m)
    sspaddmm                     torch.sspaddmm(sp, sp, m)
    svd_lowrank                  torch.svd_lowrank(m, 2)
    sym_float                    torch.sym_float(k)
    sym_int                      torch.sym_int(f)
    sym_ite                      torch.sym_ite(k > 1, k, 1)
    sym_max                      torch.sym_max(k, 3)
    sym_min                      torch.sym_min(k, 3)
    sym_not                      torch.sym_not(k > 1)
    sym_sqrt                     torch.sym_sqrt(f)
    sym_sum                      torch.sym_sum([k, 3])
    tensor                       torch.tensor([f, 1.0])
    to_dlpack                    torch.to_dlpack(x)
    typename                     torch.typename(x)
    unsafe_split_with_sizes      torch.unsafe_split_with_sizes(x, [5, 7])
    vander                       torch.vander(x, 3)
    view_as_complex_copy         torch.view_as_complex_copy(x.reshape(6, 2))
    view_as_real_copy            torch.view_as_real_copy(c)
    where                        torch.where(b, x, y)
    vmap                         torch.vmap(torch.sin)(m)
    """,
)
recurrent = "{}, [torch.ones({}, 8), torch.ones({}, 5)], False, 1, 0.0, False, False, False)"
state = "torch.zeros(1, 3, 5)"
family(own, "torch.{}(t, " + recurrent.format(state, 15, 15), "gru")
family(own, "torch.{}(t, " + recurrent.format(f"[{state}] * 2", 20, 20), "lstm")
family(own, "torch.{}(t, " + recurrent.format(state, 5, 5), "rnn_relu rnn_tanh")
family(own, "torch.{}(m, n, torch.ones(4, 4), torch.ones(4, 4))", "rnn_relu_cell rnn_tanh_cell")
family(own, "torch.{}(t, None, None, None, None, True, 0.1, 1e-5, False)", "batch_norm instance_norm")
observe = "torch.{}(x, b[:1], b[:1], x[:1], x[:1], x[:1], i[:1].int(), 0.1, 0, 255, -1)"
family(own, observe, "fused_moving_avg_obs_fake_quant")
family(
    own,
    "torch.{}()",
    """are_deterministic_algorithms_enabled get_autocast_cpu_dtype get_default_device get_default_dtype
    get_deterministic_debug_mode get_float32_matmul_precision get_num_interop_threads get_num_threads get_rng_state
    initial_seed is_anomaly_check_nan_enabled is_anomaly_enabled is_autocast_cache_enabled is_autocast_cpu_enabled
    is_deterministic_algorithms_warn_only_enabled is_grad_enabled is_inference_mode_enabled is_vulkan_available
    is_warn_always_enabled seed thread_safe_generator""",
)
family(own, "torch.{}(8)", "bartlett_window blackman_window hamming_window hann_window kaiser_window")
family(own, "torch.{}(q)", "q_scale q_zero_point")
family(
    own,
    "torch.{}(torch.quantize_per_channel(m, torch.ones(4), torch.zeros(4), 0, torch.quint8))",
    "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points",
)

# ---- torch.Tensor

methods = section("torch.Tensor")
NOT_CALLED["torch.Tensor"] = {
    ELSEWHERE: "cuda ipu mtia xpu is_pinned pin_memory record_stream to_mkldnn is_distributed",
    GONE: "eig lstsq solve symeig reinforce",
    TRAINING: """backward index register_hook register_post_accumulate_grad_hook retain_grad module_load""",
}
family(
    methods,
    "x.{}",
    """data device dtype grad grad_dtype grad_fn is_cpu is_cuda is_ipu is_leaf is_maia is_meta is_mkldnn is_mps is_mtia is_nested
    is_quantized is_sparse is_sparse_csr is_vulkan is_xla is_xpu itemsize layout name nbytes ndim output_nr real requires_grad
    retains_grad shape volatile""",
)
family(methods, "m.{}", "H T mH mT")
family(methods, "c.{}", "imag")
family(
    methods,
    "x.{}()",
    """const_data_ptr cpu data_ptr detach detach_ dim dim_order element_size get_device is_complex is_conj is_contiguous
    is_floating_point is_inference is_neg is_shared is_signed ndimension nelement new numel numpy random_ requires_grad_ size
    share_memory_ storage storage_offset storage_type stride tolist type untyped_storage""",
)
family(methods, "sp.{}()", "coalesce dense_dim is_coalesced sparse_dim to_dense")
family(methods, "sp.coalesce().{}()", "indices values")
family(methods, "sp.to_sparse_csr().{}()", "col_indices crow_indices")
family(methods, "sp.to_sparse_csc().{}()", "ccol_indices row_indices")
family(methods, "m.{}()", "slogdet to_sparse_coo to_sparse_csc to_sparse_csr")
family(methods, "m.{}((2, 2))", "to_sparse_bsc to_sparse_bsr")
family(methods, "q.{}()", "dequantize int_repr q_scale q_zero_point qscheme")
family(
    methods,
    "torch.quantize_per_channel(m, torch.ones(4), torch.zeros(4), 0, torch.quint8).{}()",
    "q_per_channel_axis q_per_channel_scales q_per_channel_zero_points",
)
family(methods, "x.{}(y)", "copy_ float_power_ is_same_size is_set_to type_as resize_as set_")
rows(
    methods,
    """
    apply_                      x.apply_(lambda v: v + 1)
    as_subclass                 x.as_subclass(torch.Tensor)
    fill_diagonal_              m.fill_diagonal_(1.0)
    float_power_                x.double().float_power_(2)
    is_nonzero                  x[0].is_nonzero()
    map2_                       x.map2_(y, y, lambda a, b, c: a + b)
    map_                        x.map_(y, lambda a, b: a + b)
    new_tensor                  x.new_tensor([1.0, f])
    resize                      x.resize(12)
    resize_as_sparse_           sp.clone().resize_as_sparse_(sp)
    slice_inverse               x[1:5].slice_inverse(x, 0, 1, 5)
    smm                         sp.smm(m)
    sparse_mask                 m.sparse_mask(sp.coalesce())
    sparse_resize_              sp.clone().sparse_resize_((5, 5), 2, 0)
    sparse_resize_and_clear_    sp.clone().sparse_resize_and_clear_((5, 5), 2, 0)
    sspaddmm                    sp.sspaddmm(sp, m)
    to_padded_tensor            torch.nested.nested_tensor([x, y]).to_padded_tensor(0.0)
    unsafe_split_with_sizes     x.unsafe_split_with_sizes([5, 7])
    """,
)

# ---- its operators

operators = section("Operators and protocols of torch.Tensor")
NOT_CALLED["Operators and protocols of torch.Tensor"] = {
    GONE: "__delitem__ __cuda_array_interface__",
    "of the class": """__class__ __dict__ __dir__ __doc__ __init_subclass__ __module__ __new__ __subclasshook__ __weakref__
    __annotations__ __dlpack_c_exchange_api__ __torch_dispatch__ __torch_function__""",
}
for text, names in {
    "x + y": "__add__ __radd__",
    "x - y": "__sub__ __rsub__",
    "x * y": "__mul__ __rmul__",
    "x / y": "__truediv__ __rtruediv__",
    "x // y": "__floordiv__ __rfloordiv__",
    "x % y": "__mod__ __rmod__",
    "x**y": "__pow__ __rpow__",
    "m @ n": "__matmul__ __rmatmul__",
    "i & i": "__and__ __rand__",
    "i | i": "__or__ __ror__",
    "i ^ i": "__xor__ __rxor__",
    "i << 1": "__lshift__ __rlshift__",
    "i >> 1": "__rshift__ __rrshift__",
    "x += y; r = x": "__iadd__",
    "x -= y; r = x": "__isub__",
    "x *= y; r = x": "__imul__",
    "x /= y; r = x": "__itruediv__",
    "x //= y; r = x": "__ifloordiv__",
    "x %= y; r = x": "__imod__",
    "x **= 2; r = x": "__ipow__",
    "i &= i + 1; r = i": "__iand__",
    "i |= i + 1; r = i": "__ior__",
    "i ^= i + 1; r = i": "__ixor__",
    "i <<= 1; r = i": "__ilshift__",
    "i >>= 1; r = i": "__irshift__",
    "x[1:5]": "__getitem__",
    "x[1:5] = 2.0; r = x": "__setitem__",
    "abs(x)": "__abs__",
    "~i": "__invert__",
    "-x": "__neg__",
    "+x": "__pos__",
    "x == y": "__eq__",
    "x != y": "__ne__",
    "x < y": "__lt__",
    "x <= y": "__le__",
    "x > y": "__gt__",
    "x >= y": "__ge__",
    "len(x)": "__len__",
    "[row for row in m]": "__iter__",
    "list(reversed(m))": "__reversed__",
    "bool(x[0])": "__bool__",
    "float(x[0])": "__float__",
    "int(x[0])": "__int__",
    "complex(x[0])": "__complex__",
    "[4, 5, 6, 7, 8, 9][i[0]]": "__index__",
    "2.0 in x": "__contains__",
    "hash(x) - hash(x)": "__hash__",
    "repr(x)": "__repr__",
    "f'{x[0]:.3f}'": "__format__",
    "x.__div__(y)": "__div__",
    "x.__rdiv__(y)": "__rdiv__",
    "x.__idiv__(y)": "__idiv__",
    "x[0].__long__()": "__long__",
    "x[0].__nonzero__()": "__nonzero__",
    "x.__array__()": "__array__",
    "x.__array_priority__": "__array_priority__",
    "x.__array_wrap__(x.numpy())": "__array_wrap__",
    "x.__deepcopy__(dict())": "__deepcopy__",
    "x.__dlpack__()": "__dlpack__",
    "x.__dlpack_device__()": "__dlpack_device__",
    "x.__reduce_ex__(2)": "__reduce_ex__",
    "x.__setstate__((x.untyped_storage(), 0, (4,), (1,)))": "__setstate__",
}.items():
    family(operators, text, names)

# ---- torch.nn.functional

functional = section("torch.nn.functional")
NOT_CALLED["torch.nn.functional"] = {
    ELSEWHERE: "scaled_grouped_mm scaled_mm",
    "how PyTorch makes its own functions": "assert_int_or_pair boolean_dispatch handle_torch_function",
}
rows(
    functional,
    """
    adaptive_max_pool1d_with_indices   F.adaptive_max_pool1d_with_indices(t, 3)
    adaptive_max_pool2d_with_indices   F.adaptive_max_pool2d_with_indices(im, 3)
    adaptive_max_pool3d_with_indices   F.adaptive_max_pool3d_with_indices(im, 2)
    affine_grid                        F.affine_grid(t[:, :2, :3], [2, 3, 4, 4], True)
    conv_tbc                           F.conv_tbc(t, torch.ones(2, 8, 5), torch.ones(5), 0)
    dropout1d                          F.dropout1d(t, 0.5)
    embedding                          F.embedding(i, torch.ones(6, 4))
    fold                               F.fold(t.reshape(2, 12, 2), (3, 2), (2, 2))
    fractional_max_pool2d_with_indices F.fractional_max_pool2d_with_indices(im, 2, 3)
    fractional_max_pool3d_with_indices F.fractional_max_pool3d_with_indices(im, 2, 2)
    grouped_mm                         F.grouped_mm(torch.ones(2, 16, 16), torch.ones(2, 16, 16))
    gumbel_softmax                     F.gumbel_softmax(m)
    has_torch_function                 F.has_torch_function((x,))
    has_torch_function_unary           F.has_torch_function_unary(x)
    has_torch_function_variadic        F.has_torch_function_variadic(x, y)
    lp_pool1d                          F.lp_pool1d(t, 2.0, 2)
    lp_pool2d                          F.lp_pool2d(im, 2.0, 2)
    lp_pool3d                          F.lp_pool3d(im, 2.0, 2)
    max_pool1d_with_indices            F.max_pool1d_with_indices(t, 2)
    max_pool2d_with_indices            F.max_pool2d_with_indices(im, 2)
    max_pool3d_with_indices            F.max_pool3d_with_indices(im, 2)
    native_channel_shuffle             F.native_channel_shuffle(im, 2)
    upsample                           F.upsample(im, scale_factor=2)
    """,
)

# ---- torch.special

special = section("torch.special")
family(special, "torch.special.{}(x.abs() + 1, y.abs())", "gammainc gammaincc")
rows(special, "polygamma torch.special.polygamma(1, x.abs())")
