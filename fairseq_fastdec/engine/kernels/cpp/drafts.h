// Sequential prediction heads: one small layer that continues from p_1's features, token by token.

#pragma once

#include "transformer.h"

namespace fastdec {
namespace {

// Concatenates the normalised states and the embeddings of the thread's tokens.
template <typename Vec>
INLINE void put_side_by_side(const Draft &draft, const Workspace &own) {
  const Model &model = draft.step.model;
  const int64_t n = draft.step.n(), inputs = draft.token.inputs;
  for (int64_t at = own.number; at < n; at += own.count) {
    float *to = own.hidden + at * inputs;
    normalize<Vec>(draft.token_norm, own.x + at * model.dim, to, model.dim);
    const int64_t size = inputs - model.dim;
    const float *word = model.embed + draft.step.tokens[at] * size;
    for (int64_t i = 0; i < size; ++i) to[model.dim + i] = model.embed_scale * word[i];
  }
}

template <typename Vec>
INLINE void run_draft(MultiplyFp32 multiply_fp32, Attend attend, const Draft &draft,
                      const ThreadSlice &slice) {
  const Step &step = draft.step;
  const Workspace own = workspace_of(step, slice);
  const auto apply = [&](const Linear &linear, const Norm *norm, const float *x, float *y,
                         Epilogue epilogue) {
    apply_linear<Vec>(multiply_fp32, step, linear, norm, x, y, epilogue, own);
    wait_at(step.barrier, own);
  };
  if (draft.from_features)
    apply(draft.begin, nullptr, draft.from_features, own.x, Epilogue::STORE);
  put_side_by_side<Vec>(draft, own);
  wait_at(step.barrier, own);
  apply(draft.token, nullptr, own.hidden, own.x, Epilogue::ADD);
  apply(draft.query, &draft.source_norm, own.x, own.queries, Epilogue::STORE);
  attend_to_keys<Keys::OF_SOURCES>(attend, step, draft.layer, own);
  wait_at(step.barrier, own);
  apply(draft.source, nullptr, own.context, own.x, Epilogue::ADD);
  apply(draft.fc1, &draft.ffn_norm, own.x, own.hidden, step.model.activation);
  apply(draft.fc2, nullptr, own.hidden, own.x, Epilogue::ADD);
  if (draft.narrow.outputs) {
    apply_linear<Vec>(multiply_fp32, step, draft.narrow, &draft.output_norm, own.x, draft.outputs,
                      Epilogue::STORE, own);
    return;
  }
  const int64_t n = step.n(), dim = step.model.dim;
  for (int64_t at = own.number; at < n; at += own.count)
    normalize<Vec>(draft.output_norm, own.x + at * dim, draft.outputs + at * dim, dim);
}

}  // namespace
}  // namespace fastdec
