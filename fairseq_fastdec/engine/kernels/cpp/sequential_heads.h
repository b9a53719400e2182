// Sequential prediction heads: one small layer that continues from p_1's features, token by token.

#pragma once

#include "transformer.h"

namespace fastdec {
namespace {

// Concatenates the normalised states and the embeddings of the thread's tokens.
template <typename Vec>
INLINE void put_side_by_side(const SequentialHeads &heads, const Workspace &own) {
  const Network &network = heads.step.network;
  const int64_t n = heads.step.n(), inputs = heads.token.inputs;
  for (int64_t at = own.number; at < n; at += own.count) {
    float *to = own.hidden + at * inputs;
    normalize<Vec>(heads.token_norm, own.x + at * network.dim, to, network.dim);
    const int64_t size = inputs - network.dim;
    const float *word = network.embed + heads.step.tokens[at] * size;
    for (int64_t i = 0; i < size; ++i) to[network.dim + i] = network.embed_scale * word[i];
  }
}

template <typename Vec>
INLINE void run_sequential(MultiplyFp32 multiply_fp32, Attend attend, const SequentialHeads &heads,
                      const ThreadSlice &slice) {
  const Step &step = heads.step;
  const Workspace own = workspace_of(step, slice);
  const auto apply = [&](const Linear &linear, const Norm *norm, const float *x, float *y,
                         Epilogue epilogue) {
    apply_linear<Vec>(multiply_fp32, step, linear, norm, x, y, epilogue, own);
    wait_at(step.barrier, own);
  };
  if (heads.from_features)
    apply(heads.begin, nullptr, heads.from_features, own.x, Epilogue::STORE);
  put_side_by_side<Vec>(heads, own);
  wait_at(step.barrier, own);
  apply(heads.token, nullptr, own.hidden, own.x, Epilogue::ADD);
  apply(heads.query, &heads.source_norm, own.x, own.queries, Epilogue::STORE);
  attend_to_keys<Keys::OF_SOURCES>(attend, step, heads.layer, own);
  wait_at(step.barrier, own);
  apply(heads.source, nullptr, own.context, own.x, Epilogue::ADD);
  apply(heads.fc1, &heads.ffn_norm, own.x, own.hidden, step.network.activation);
  apply(heads.fc2, nullptr, own.hidden, own.x, Epilogue::ADD);
  if (heads.narrow.outputs) {
    apply_linear<Vec>(multiply_fp32, step, heads.narrow, &heads.output_norm, own.x, heads.outputs,
                      Epilogue::STORE, own);
    return;
  }
  const int64_t n = step.n(), dim = step.network.dim;
  for (int64_t at = own.number; at < n; at += own.count)
    normalize<Vec>(heads.output_norm, own.x + at * dim, heads.outputs + at * dim, dim);
}

}  // namespace
}  // namespace fastdec
