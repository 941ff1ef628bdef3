// lltm.cpp: the cell of cell.py as a C++ extension, to compare with: PyTorch's operators called from C++, and the derivative
// written by hand. Built by setup.py, or by torch.utils.cpp_extension.load.
#include <torch/extension.h>

#include <vector>

using torch::Tensor;

// new_h, new_cell, and what backward reads: the operand of the product, the gates before and behind their activations.
std::vector<Tensor> forward(const Tensor &input, const Tensor &weights, const Tensor &bias, const Tensor &old_h,
                            const Tensor &old_cell) {
    Tensor operand = torch::cat({old_h, input}, 1);
    Tensor gates = torch::addmm(bias, operand, weights.t());
    std::vector<Tensor> parts = gates.chunk(3, 1);
    Tensor input_gate = torch::sigmoid(parts[0]), output_gate = torch::sigmoid(parts[1]), candidate = torch::elu(parts[2]);
    Tensor new_cell = old_cell + candidate * input_gate;
    Tensor new_h = torch::tanh(new_cell) * output_gate;
    return {new_h, new_cell, operand, input_gate, output_gate, candidate};
}

// Gradients of the five arguments of forward.
std::vector<Tensor> backward(const Tensor &grad_h, const Tensor &grad_cell, const Tensor &operand, const Tensor &input_gate,
                             const Tensor &output_gate, const Tensor &candidate, const Tensor &new_cell, const Tensor &weights) {
    Tensor shown = torch::tanh(new_cell);
    Tensor of_cell = grad_h * output_gate * (1 - shown * shown) + grad_cell;
    Tensor of_input_gate = of_cell * candidate * input_gate * (1 - input_gate);
    Tensor of_output_gate = grad_h * shown * output_gate * (1 - output_gate);
    Tensor of_candidate = of_cell * input_gate * (candidate.clamp_max(0) + 1); // elu' is elu + 1 below 0, and 1 above
    Tensor of_gates = torch::cat({of_input_gate, of_output_gate, of_candidate}, 1);
    Tensor of_operand = of_gates.mm(weights);
    int64_t states = new_cell.size(1);
    return {of_operand.slice(1, states), of_gates.t().mm(operand), of_gates.sum(0), of_operand.slice(1, 0, states), of_cell};
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {
    m.def("forward", &forward);
    m.def("backward", &backward);
}
