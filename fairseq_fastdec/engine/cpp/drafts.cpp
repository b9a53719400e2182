#include "drafts.h"

#include <cmath>

namespace fastdec {

namespace {

// Paths of a row's tree that sequential heads prolong from one level to the next.
constexpr int64_t MOST_EXPANDED = 4;
// The limits of ends at n_steps steps behind each row's next token: [n_rows, n_steps], or [n_steps,
// n_rows] if by_step.
EndLimits ends_behind(const std::vector<Row> &rows, const Rules &rules, int64_t n_steps,
                      bool by_step) {
  const int64_t n_rows = int64_t(rows.size());
  EndLimits ends;
  ends.clear(n_rows * n_steps);
  for (int64_t row = 0; row < n_rows; ++row)
    for (int64_t i = 0; i < n_steps; ++i)
      ends.set(by_step ? i * n_rows + row : row * n_steps + i, rules, rows[row].length() + 1 + i,
               rows[row].request);
  return ends;
}

std::vector<int64_t> next_tokens_of(const std::vector<Row> &rows) {
  std::vector<int64_t> tokens;
  for (const Row &row : rows) tokens.push_back(row.next_token);
  return tokens;
}

// Guesses without a model, in a window that slides on with every settled token; without a window,
// no proposals (Santilli et al. 2023, and lookahead decoding, Fu et al. 2024).
class Guesses : public Drafter {
 public:
  Guesses(const Rules &rules, const Proposals &proposals)
      : pad(rules.pad), window(proposals.window), guesser(proposals.drafts, rules.pad) {}

  void propose(Decoder &, const std::vector<Row> &rows, float *, Feed &feed) override {
    std::vector<std::vector<int64_t>> blocks;
    for (const Row &row : rows) {
      blocks.push_back({row.next_token});
      append_guesses(row, row.answers, blocks.back());
    }
    feed.take(blocks, pad);
  }

  void propose_behind(const Row &row, std::vector<int64_t> &block) override {
    append_guesses(row, {}, block);
  }

  void learn(Row &row) override {
    if (window == 1) return;
    std::vector<int64_t> context = row.context;
    context.push_back(row.next_token);
    guesser.learn(row, context);
  }

  void joined(Row &row) override { guesser.begin(row); }
  void left(const Row &row) override { guesser.end(row); }

 private:
  // Appends guesses to the certain tokens of a block, of which a new row's context has the first.
  //   answered: p_1's answers to the last step's guesses
  void append_guesses(const Row &row, const std::vector<int64_t> &answered,
                      std::vector<int64_t> &block) {
    if (window == 1) return;
    std::vector<int64_t> context = row.context;
    context.insert(context.end(), block.begin() + (row.is_new ? 1 : 0), block.end());
    // The last answer of a block can be the output's last token, whatever comes before it.
    const int64_t room = row.request.max_len + 1 - (int64_t(context.size()) - 1);
    const int64_t n = std::max<int64_t>(std::min(window, room), 1) - 1;
    const int64_t n_answered = std::min<int64_t>(n, int64_t(answered.size()));
    const size_t first = block.size();
    block.insert(block.end(), answered.begin(), answered.begin() + n_answered);
    block.resize(first + n, pad);
    guesser.guess(row, context, block.data() + first, n, n_answered);
  }

  const int64_t pad, window;
  Guesser guesser;
};

// What heads of all kinds have.
class HeadDrafter : public Drafter {
 public:
  HeadDrafter(const Rules &rules, const OutputLayers &outputs, const Proposals &proposals)
      : rules(rules),
        layer(outputs.of_proposals()),
        proposals(proposals),
        n_steps(proposals.n_heads - 1) {}

  int64_t n_proposing() const override { return n_steps; }

 protected:
  BestToken best_token(const Team &team) const {
    BestToken best = {};
    best.linear = layer.linear(), best.types = layer.types_or_null();
    best.threads = team.threads, best.n_threads = team.n;
    layer.restrict(best);
    best.temperature = rules.temperature;
    return best;
  }

  // The best outputs of logits [n_rows, n_outputs].
  TopK ranking(const Team &team, const float *const *logits, int64_t n_rows) {
    TopK best = {};
    const int64_t n = layer.n_outputs();
    best.threads = team.threads, best.n_threads = n_rows * n < FEW_SCORES ? 1 : team.n;
    best.n_rows = best.n_beams = n_rows, best.n_types = n;
    // No path of a tree needs more of a head's tokens than the tree has.
    best.n_best = best.n_per_row = std::min(proposals.n_in_tree, n);
    best.normalize = 1, best.n_parts = 1, best.n_members = 1, best.scores = logits;
    layer.restrict(best);
    best.best = ranked_scores.reserve(n_rows * best.n_best);
    best.tokens = ranked_tokens.reserve(n_rows * best.n_best);
    return best;
  }

  void make_room_for_trees(int64_t n_rows, Feed &feed) {
    const int64_t n = n_rows * (1 + proposals.n_in_tree);
    feed.tokens.resize(n), feed.parents.resize(n), feed.depths.resize(n);
    path_scores.reserve(n);
  }

  void take_chains(const std::vector<Row> &rows, const int64_t *chains, int64_t n,
                   Feed &feed) const {
    std::vector<std::vector<int64_t>> blocks;
    for (size_t row = 0; row < rows.size(); ++row, chains += n) {
      blocks.push_back({rows[row].next_token});
      blocks.back().insert(blocks.back().end(), chains, chains + n);
    }
    feed.take(blocks, rules.pad);
  }

  const Rules &rules;
  const OutputLayer &layer;
  const Proposals proposals;
  const int64_t n_steps;  // the proposals of a chain, or the levels of a tree
  Buffer<float> scratch, choice_scratch, product_scratch, ranked_scores, path_scores, logits;
  Buffer<int64_t> ranked_tokens;
};

// Heads that know nothing of each other's tokens (section 6).
class ParallelHeads : public HeadDrafter {
 public:
  using HeadDrafter::HeadDrafter;

  void propose(Decoder &decoder, const std::vector<Row> &rows, float *states,
               Feed &feed) override {
    const int64_t n_rows = int64_t(rows.size()), n = n_rows * n_steps;
    const PreparedModel &model = decoder.model(0);
    const Team team = decoder.team();
    Heads heads = model.heads;
    heads.threads = team.threads, heads.n_threads = team.n;
    heads.n = n_rows, heads.x = states, heads.y = outputs.reserve(n * model.decoder.dim);
    run(heads, scratch);
    const EndLimits ends = ends_behind(rows, rules, n_steps, false);
    if (proposals.n_in_tree) return grow_trees(team, rows, ends, feed);
    BestToken best = best_token(team);
    best.n = n, best.x = outputs.data();
    best.no_end = ends.no_end_or_null(), best.only_end = ends.only_end_or_null();
    best.scores = ranked_scores.reserve(n), best.tokens = ranked_tokens.reserve(n);
    run(best, choice_scratch);
    take_chains(rows, best.tokens, n_steps, feed);
  }

 private:
  void grow_trees(const Team &team, const std::vector<Row> &rows, const EndLimits &ends,
                  Feed &feed) {
    const int64_t n_rows = int64_t(rows.size()), n = n_rows * n_steps;
    Product product = {};
    product.linear = layer.linear(), product.threads = team.threads, product.n_threads = team.n;
    product.n = n, product.x = outputs.data(), product.y = logits.reserve(n * layer.n_outputs());
    run(product, product_scratch);
    divide(product, rules.temperature);
    const float *const of_model = product.y;
    TopK best = ranking(team, &of_model, n);
    best.no_end = ends.no_end_or_null(), best.has_to_end = ends.only_end_or_null();
    run(best, choice_scratch);
    for (int64_t at = 0; at < n * best.n_best; ++at)
      best.tokens[at] = layer.type_of(best.tokens[at]);
    const std::vector<int64_t> roots = next_tokens_of(rows);
    make_room_for_trees(n_rows, feed);
    Trees trees = {};
    trees.n_rows = n_rows, trees.n_heads = n_steps, trees.n_best = best.n_best;
    trees.n_proposals = proposals.n_in_tree, trees.eos = rules.eos, trees.pad = rules.pad;
    trees.roots = roots.data(), trees.scores = best.best, trees.ranked = best.tokens;
    trees.tokens = feed.tokens.data(), trees.parents = feed.parents.data();
    trees.depths = feed.depths.data(), trees.path_scores = path_scores.data();
    feed.take_trees(n_rows, run(trees));
  }

  Buffer<float> outputs;
};

// Heads that see the tokens before theirs, and attend to the source.
class SequentialHeads : public HeadDrafter {
 public:
  using HeadDrafter::HeadDrafter;

  void propose(Decoder &decoder, const std::vector<Row> &rows, float *states,
               Feed &feed) override {
    if (proposals.n_in_tree) return grow_trees(decoder, rows, states, feed);
    const int64_t n_rows = int64_t(rows.size());
    Draft draft = draft_of(decoder, states, 1);
    BestToken best = best_token(decoder.team());
    best.n = n_rows, best.x = draft.outputs;
    best.scores = ranked_scores.reserve(n_rows), best.tokens = ranked_tokens.reserve(n_rows);
    const EndLimits ends = ends_behind(rows, rules, n_steps, true);
    const std::vector<int64_t> next = next_tokens_of(rows);
    DraftChains chains = {};
    chains.draft = &draft, chains.best = &best;
    chains.n_steps = n_steps, chains.confidence = proposals.confidence;
    chains.next_tokens = next.data();
    chains.no_end = ends.no_end_or_null(), chains.only_end = ends.only_end_or_null();
    chains.proposals = found.reserve(n_rows * n_steps);
    chains.path_scores = path_scores.reserve(n_rows);
    const int64_t n_taken = run(chains, scratch, choice_scratch);
    take_chains(rows, chains.proposals, n_taken, feed);
  }

 private:
  Draft draft_of(Decoder &decoder, const float *from, int64_t width) {
    const PreparedModel &model = decoder.model(0);
    Draft draft = model.drafter;
    decoder.set_rows(0, 0, draft.step);
    const int64_t n = decoder.n_rows() * width;
    draft.step.threads = decoder.team().threads, draft.step.n_threads = decoder.team().n;
    draft.step.n_new = 1;
    draft.step.features = drafted_states.reserve(n * draft.step.model.dim);
    draft.outputs = outputs.reserve(n * draft.step.model.dim);
    draft.from_features = from;
    return draft;
  }

  void grow_trees(Decoder &decoder, const std::vector<Row> &rows, const float *states,
                  Feed &feed) {
    const int64_t n_rows = int64_t(rows.size()), n = n_rows * MOST_EXPANDED;
    Draft draft = draft_of(decoder, states, MOST_EXPANDED);
    Product product = {};
    product.linear = layer.linear(), product.x = draft.outputs;
    product.threads = decoder.team().threads, product.n_threads = decoder.team().n;
    product.y = logits.reserve(n * layer.n_outputs());
    const float *const of_model = product.y;
    TopK best = ranking(decoder.team(), &of_model, n);
    const EndLimits ends = ends_behind(rows, rules, n_steps, true);
    const std::vector<int64_t> roots = next_tokens_of(rows);
    make_room_for_trees(n_rows, feed);
    DraftTrees trees = {};
    trees.draft = &draft, trees.product = &product, trees.best = &best;
    trees.types = layer.types_or_null();
    trees.n_levels = n_steps, trees.n_proposals = proposals.n_in_tree;
    trees.width = MOST_EXPANDED, trees.eos = rules.eos, trees.pad = rules.pad;
    trees.temperature = rules.temperature;
    trees.least_score = proposals.confidence > 0 ? std::log(proposals.confidence) : -INFINITY;
    trees.no_end = ends.no_end_or_null(), trees.only_end = ends.only_end_or_null();
    trees.flags = tree_flags.reserve(2 * n);
    trees.states = tree_states.reserve(n * draft.step.model.dim);
    trees.roots = roots.data();
    trees.tokens = feed.tokens.data(), trees.parents = feed.parents.data();
    trees.depths = feed.depths.data(), trees.path_scores = path_scores.data();
    feed.take_trees(n_rows, run(trees, scratch, product_scratch, choice_scratch));
  }

  Buffer<float> drafted_states, outputs, tree_states;
  Buffer<int64_t> found;
  Buffer<uint8_t> tree_flags;
};

}  // namespace

std::unique_ptr<Drafter> make_drafter(const PreparedModel &model, const Rules &rules,
                                      const OutputLayers &outputs, const Proposals &proposals) {
  if (proposals.n_heads == 1) return std::make_unique<Guesses>(rules, proposals);
  if (model.has_drafter()) return std::make_unique<SequentialHeads>(rules, outputs, proposals);
  return std::make_unique<ParallelHeads>(rules, outputs, proposals);
}

}  // namespace fastdec
