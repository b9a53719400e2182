// A step of a decoder, or an encoder, from token ids to states.
//
// With few tokens, torch spends most of its time on starting some hundred operations. Here one call
// runs all of them, with barriers in between.

#pragma once

#include "attention.h"
#include "linear.h"
#include "recurrence.h"

namespace fastdec {
namespace {

// Embeds the thread's tokens.
template <typename Vec>
INLINE void embed(const Step &step, const Workspace &own) {
  const Network &network = step.network;
  for (int64_t at = own.number; at < step.n(); at += own.count) {
    const int64_t row = step.row_of(at), token = at - step.begins[row];
    const int64_t fed = step.tokens[at];
    const int64_t type = network.first_input >= 0 && fed == network.eos ? network.first_input : fed;
    const float *word = network.embed + type * network.dim;
    float *to = own.x + at * network.dim;
    for (int64_t i = 0; i < network.dim; ++i) to[i] = network.embed_scale * word[i];
    if (network.n_positions) {
      const int64_t place = std::min(step.past[row] + token, network.n_positions - 1);
      const float *position = network.positions + place * network.dim;
      for (int64_t i = 0; i < network.dim; ++i) to[i] += position[i];
    }
    if (network.embed_norm.weight) normalize<Vec>(network.embed_norm, to, to, network.dim);
  }
}

// y [n, outputs] from x [n, inputs], which is normalised first unless norm is null.
template <typename Vec>
INLINE void apply_linear(MultiplyFp32 multiply_fp32, const Step &step, const Linear &linear,
                         const Norm *norm, const float *x, float *y, Epilogue epilogue,
                         const Workspace &own) {
  const int64_t n = step.n(), dim = linear.inputs;
  if (!linear.rounds_inputs()) {
    // Each thread normalises all tokens, which needs no barrier.
    for (int64_t at = 0; norm && at < n * dim; at += dim)
      normalize<Vec>(*norm, x + at, own.normalized + at, dim);
    multiply_fp32(linear, norm ? own.normalized : x, y, n, own, epilogue);
    return;
  }
  const bool together = quantizes_together(linear, n);
  float *quantized = together ? own.quantized : own.own_quantized;
  for (int64_t token = together ? own.number : 0; token < n; token += together ? own.count : 1) {
    const float *from = x + token * dim;
    if (norm) normalize<Vec>(*norm, from, own.normalized, dim);
    quantize(linear, norm ? own.normalized : from, quantized, token, n);
  }
  if (together) wait_at(step.barrier, own);
  multiply_quantized(linear, quantized, y, n, own, epilogue);
}

// Normalises the thread's tokens in x.
template <typename Vec>
INLINE void normalize_slice(const Step &step, const Norm &norm, const Workspace &own) {
  const int64_t n = step.n(), dim = step.network.dim;
  for (int64_t token = own.number; token < n; token += own.count)
    normalize<Vec>(norm, own.x + token * dim, own.x + token * dim, dim);
}

// Ends a sublayer after its output has been added to x.
template <typename Vec>
INLINE void end_sublayer(const Step &step, const Norm &norm, const Workspace &own) {
  wait_at(step.barrier, own);
  if (step.network.pre_norm) return;
  normalize_slice<Vec>(step, norm, own);
  wait_at(step.barrier, own);
}

// Adds the output of self-attention to x.
template <typename Vec>
INLINE void add_self_attention(MultiplyFp32 multiply_fp32, const Step &step, const Layer &layer,
                               const Workspace &own) {
  if (!layer.self_out_norm.weight)
    return apply_linear<Vec>(multiply_fp32, step, layer.self_out, nullptr, own.context, own.x,
                             Epilogue::ADD, own);
  // The memory of the queries is free again.
  apply_linear<Vec>(multiply_fp32, step, layer.self_out, nullptr, own.context, own.queries,
                    Epilogue::STORE, own);
  wait_at(step.barrier, own);
  const int64_t n = step.n(), dim = step.network.dim;
  for (int64_t token = own.number; token < n; token += own.count) {
    float *to = own.x + token * dim, *output = own.queries + token * dim;
    normalize<Vec>(layer.self_out_norm, output, output, dim);
    for (int64_t i = 0; i < dim; ++i) to[i] += output[i];
  }
}

// NormFormer: normalises the hidden units of the thread's tokens, and scales the residual.
template <typename Vec>
INLINE void scale_feed_forward(const Step &step, const Layer &layer, const Workspace &own) {
  const int64_t n = step.n(), dim = step.network.dim, hidden = step.network.hidden;
  for (int64_t token = own.number; token < n; token += own.count) {
    float *units = own.hidden + token * hidden, *residual = own.x + token * dim;
    if (layer.fc1_norm.weight) normalize<Vec>(layer.fc1_norm, units, units, hidden);
    for (int64_t i = 0; layer.residual_scale && i < dim; ++i) residual[i] *= layer.residual_scale[i];
  }
}

template <typename Vec>
INLINE void run_layer(MultiplyFp32 multiply_fp32, Attend attend, const Step &step, int64_t index,
                      const Workspace &own) {
  const Network &network = step.network;
  const Layer &layer = network.layers[index];
  const auto before = [&](const Norm &norm) { return network.pre_norm ? &norm : nullptr; };
  const bool is_recurrent = layer.recurrence.outputs;
  apply_linear<Vec>(multiply_fp32, step, is_recurrent ? layer.recurrence : layer.self_qkv,
                    before(layer.self_norm), own.x, own.queries, Epilogue::STORE, own);
  wait_at(step.barrier, own);
  if (is_recurrent) {
    run_recurrence<Vec>(step, index, own);
  } else {
    attend_to_keys<Keys::OF_ROWS>(attend, step, index, own);
    wait_at(step.barrier, own);
    add_self_attention<Vec>(multiply_fp32, step, layer, own);
  }
  end_sublayer<Vec>(step, layer.self_norm, own);
  if (layer.cross_query.outputs) {
    apply_linear<Vec>(multiply_fp32, step, layer.cross_query, before(layer.cross_norm), own.x,
                      own.queries, Epilogue::STORE, own);
    wait_at(step.barrier, own);
    attend_to_keys<Keys::OF_SOURCES>(attend, step, index, own);
    wait_at(step.barrier, own);
    apply_linear<Vec>(multiply_fp32, step, layer.cross_out, nullptr, own.context, own.x,
                      Epilogue::ADD, own);
    end_sublayer<Vec>(step, layer.cross_norm, own);
  }
  apply_linear<Vec>(multiply_fp32, step, layer.fc1, before(layer.final_norm), own.x, own.hidden,
                    network.activation, own);
  wait_at(step.barrier, own);
  if (layer.fc1_norm.weight || layer.residual_scale) {
    scale_feed_forward<Vec>(step, layer, own);
    wait_at(step.barrier, own);
  }
  apply_linear<Vec>(multiply_fp32, step, layer.fc2, nullptr, own.hidden, own.x, Epilogue::ADD,
                    own);
  end_sublayer<Vec>(step, layer.final_norm, own);
}

template <typename Vec>
INLINE void run_step(MultiplyFp32 multiply_fp32, Attend attend, const Step &step,
                     const ThreadSlice &slice) {
  const Network &network = step.network;
  const Workspace own = workspace_of(step, slice);
  embed<Vec>(step, own);
  wait_at(step.barrier, own);
  for (int64_t index = 0; index < network.n_layers; ++index)
    run_layer<Vec>(multiply_fp32, attend, step, index, own);
  if (network.final_norm.weight) normalize_slice<Vec>(step, network.final_norm, own);
}

}  // namespace
}  // namespace fastdec
