#include "proposers.h"

namespace fastdec {

namespace {

// The limits of ends at n_steps steps after each row's next token: [n_rows, n_steps], or [n_steps,
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

// Guesses without a model, in a window that slides with every settled token (Santilli et al. 2023,
// and lookahead decoding, Fu et al. 2024). With a window of 1 there are no proposals.
class Guesses : public Proposer {
 public:
  Guesses(const Rules &rules, const Proposals &proposals)
      : pad(rules.pad), window(proposals.lookahead_window), guesser(proposals.guesses, rules.pad) {}

  Blocks propose(Decoder &, const std::vector<Row> &rows, const States &) override {
    Blocks blocks;
    for (const Row &row : rows) {
      blocks.push_back({row.next_token});
      append_guesses(row, row.answers, blocks.back());
    }
    return blocks;
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
  // Appends guesses to the certain tokens of a block; a new row's context already has the first
  // one.
  //   answered: the answers of p_1 to the last step's guesses
  void append_guesses(const Row &row, const std::vector<int64_t> &answered,
                      std::vector<int64_t> &block) {
    if (window == 1) return;
    std::vector<int64_t> context = row.context;
    context.insert(context.end(), block.begin() + (row.is_new ? 1 : 0), block.end());
    // The answer to the last token of a block can be the last token of the output.
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

// The base of heads of both kinds. An ensemble proposes the best tokens by the mean of the
// probabilities of the models that have heads.
class HeadProposer : public Proposer {
 public:
  HeadProposer(std::vector<int64_t> proposing, const Rules &rules, const OutputLayers &layers,
               const Proposals &proposals)
      : proposing(std::move(proposing)),
        rules(rules),
        layers(layers),
        layer(layers.of_proposals()[0]),
        proposals(proposals),
        n_steps(proposals.decoding_block_size - 1) {}

  int64_t n_proposing() const override { return n_steps; }

 protected:
  // Sets the rules of a choice at n states, and the memory for its results.
  void prepare(Choice &best, int64_t n) {
    layer.restrict(best);
    best.n = n, best.n_best = 1;
    best.scores = chosen_scores.reserve(n), best.tokens = chosen_tokens.reserve(n);
  }

  // The choice of the best tokens of n states of one model, in one pass over its output layer.
  BestTokens best_tokens(const Decoder &decoder, int64_t n) {
    BestTokens best = {};
    best.linear = layer.linear();
    best.n_threads = decoder.n_threads(), best.temperature = rules.temperature;
    best.normalize = float(proposals.proposal_confidence) > 0;
    prepare(best, n);
    return best;
  }

  // The products with the models' output layers for at most n states.
  std::vector<Product> products(const Decoder &decoder, int64_t n) {
    return products_with(layers.of_proposals(), n, decoder.n_threads(), logits);
  }

  // The choice of the best tokens from the results of these products, for at most n states.
  TopK ranking(const Decoder &decoder, int64_t n, const std::vector<Product> &products) {
    TopK best = {};
    best.products = products.data(), best.n_members = int64_t(products.size());
    best.n_threads = decoder.n_threads();
    prepare(best, n);
    return best;
  }

  // Each row's next token, and of its n_steps proposals the first lengths[row].
  Blocks blocks_of(const std::vector<Row> &rows, const int64_t *chains,
                   const std::vector<int64_t> &lengths) const {
    Blocks blocks;
    for (size_t row = 0; row < rows.size(); ++row, chains += n_steps) {
      blocks.push_back({rows[row].next_token});
      blocks.back().insert(blocks.back().end(), chains, chains + lengths[row]);
    }
    return blocks;
  }

  const std::vector<int64_t> proposing;  // the numbers of the models that have heads
  const Rules &rules;
  const OutputLayers &layers;
  const OutputLayer &layer;  // the first model's; those of all models have the same outputs
  const Proposals proposals;
  const int64_t n_steps;  // the proposals of a chain
  Buffer<float> scratch, choice_scratch, product_scratch, chosen_scores, chain_scores, logits;
  Buffer<int64_t> chosen_tokens;
};

// Parallel heads, which are independent of each other (section 6).
class ParallelProposer : public HeadProposer {
 public:
  using HeadProposer::HeadProposer;

  Blocks propose(Decoder &decoder, const std::vector<Row> &rows, const States &states) override {
    const int64_t n_rows = int64_t(rows.size()), n = n_rows * n_steps;
    const EndLimits ends = ends_behind(rows, rules, n_steps, false);
    if (proposing.size() == 1) {
      BestTokens best = best_tokens(decoder, n);
      best.x = outputs_of(decoder, proposing[0], n_rows, states);
      best.no_end = ends.no_end_or_null(), best.only_end = ends.only_end_or_null();
      run(best, choice_scratch);
    } else {
      std::vector<Product> logits_of = products(decoder, n);
      for (size_t number = 0; number < proposing.size(); ++number) {
        Product &product = logits_of[number];
        product.x = outputs_of(decoder, proposing[number], n_rows, states);
        run(product, product_scratch, rules.temperature);
      }
      TopK best = ranking(decoder, n, logits_of);
      best.no_end = ends.no_end_or_null(), best.only_end = ends.only_end_or_null();
      run(best, choice_scratch);
    }
    return blocks_of(rows, chosen_tokens.data(), lengths_of(n_rows));
  }

 private:
  // How many proposals of each row's chain are made.
  std::vector<int64_t> lengths_of(int64_t n_rows) const {
    std::vector<int64_t> lengths(n_rows, 0);
    for (int64_t row = 0; row < n_rows; ++row) {
      float score = 0;
      for (int64_t at = row * n_steps; at < (row + 1) * n_steps; ++at)
        prolong(lengths[row], score, float(proposals.proposal_confidence), chosen_scores[at],
                chosen_tokens[at] == rules.eos);
    }
    return lengths;
  }

  // The inputs of a model's output layer, [n_rows, n_steps, dim].
  const float *outputs_of(const Decoder &decoder, int64_t member, int64_t n_rows,
                          const States &states) {
    Heads heads = decoder.model(member).heads;
    heads.n_threads = decoder.n_threads(), heads.n = n_rows, heads.x = states[member].data();
    heads.y = outputs.reserve(n_rows * n_steps * decoder.model(member).decoder.dim);
    run(heads, scratch);
    return heads.y;
  }

  Buffer<float> outputs;
};

// Sequential heads, which see the tokens before theirs and attend to the source.
class SequentialProposer : public HeadProposer {
 public:
  using HeadProposer::HeadProposer;

  Blocks propose(Decoder &decoder, const std::vector<Row> &rows, const States &states) override {
    const EndLimits ends = ends_behind(rows, rules, n_steps, true);
    return proposing.size() == 1 ? propose_at_once(decoder, rows, states, ends)
                                 : propose_together(decoder, rows, states, ends);
  }

 private:
  // The tasks of each model's heads.
  std::vector<SequentialHeads> heads_of(Decoder &decoder, const States &states) {
    const int64_t n = decoder.n_rows();
    int64_t most = 0;
    for (int64_t member : proposing) most = std::max(most, decoder.model(member).decoder.dim);
    outputs.reserve(n * most);
    begins = even_begins(n, 1);
    head_states.resize(decoder.n_models());
    std::vector<SequentialHeads> members;
    for (int64_t member : proposing) {
      SequentialHeads own = decoder.model(member).sequential;
      decoder.set_rows(member, 0, own.step);
      own.step.n_threads = decoder.n_threads(), own.step.begins = begins.data();
      own.step.features = head_states[member].reserve(n * own.step.network.dim);
      // Shared: a product reads them before the next model overwrites them.
      own.outputs = outputs.data();
      own.from_features = states[member].data();
      members.push_back(own);
    }
    return members;
  }

  // Chains without tokens.
  ProposalChains chains_of(int64_t n_rows) {
    ProposalChains chains = {};
    chains.n_steps = n_steps, chains.confidence = float(proposals.proposal_confidence);
    chains.proposals = found.reserve(n_rows * n_steps);
    chains.scores = chain_scores.reserve(n_rows);
    std::fill_n(chains.scores, n_rows, 0.0f);
    lengths.assign(n_rows, 0);
    chains.lengths = lengths.data();
    return chains;
  }

  // Computes the chains of one model in one call.
  Blocks propose_at_once(Decoder &decoder, const std::vector<Row> &rows, const States &states,
                         const EndLimits &ends) {
    const int64_t n_rows = int64_t(rows.size());
    std::vector<SequentialHeads> members = heads_of(decoder, states);
    BestTokens best = best_tokens(decoder, n_rows);
    best.x = outputs.data();
    const std::vector<int64_t> next = next_tokens_of(rows);
    ProposalChains chains = chains_of(n_rows);
    chains.heads = members.data(), chains.best = &best;
    chains.next_tokens = next.data();
    chains.no_end = ends.no_end_or_null(), chains.only_end = ends.only_end_or_null();
    run(chains, scratch, choice_scratch);
    return blocks_of(rows, chains.proposals, lengths);
  }

  // Computes the chains of several models, which read the same tokens.
  Blocks propose_together(Decoder &decoder, const std::vector<Row> &rows, const States &states,
                          const EndLimits &ends) {
    const int64_t n_rows = int64_t(rows.size());
    std::vector<SequentialHeads> members = heads_of(decoder, states);
    std::vector<Product> logits_of = products(decoder, n_rows);
    TopK best = ranking(decoder, n_rows, logits_of);
    const std::vector<int64_t> next = next_tokens_of(rows);
    ProposalChains chains = chains_of(n_rows);
    bool go_on = true;
    for (int64_t step = 0; step < n_steps && go_on; ++step) {
      for (size_t number = 0; number < members.size(); ++number) {
        SequentialHeads &own = members[number];
        Product &product = logits_of[number];
        own.step.tokens = step ? best.tokens : next.data();
        run(own, scratch);
        own.from_features = nullptr;
        product.x = own.outputs;
        run(product, product_scratch, rules.temperature);
      }
      best.no_end = ends.no_end_or_null(step * n_rows);
      best.only_end = ends.only_end_or_null(step * n_rows);
      run(best, choice_scratch);
      go_on = prolong_chains(chains, best, step);
    }
    return blocks_of(rows, chains.proposals, lengths);
  }

  std::vector<int64_t> begins;
  std::vector<Buffer<float>> head_states;  // of each model
  Buffer<float> outputs;
  Buffer<int64_t> found;
  std::vector<int64_t> lengths;  // of chains
};

}  // namespace

std::unique_ptr<Proposer> make_proposer(const Models &models, const Rules &rules,
                                        const OutputLayers &layers, const Proposals &proposals) {
  if (proposals.decoding_block_size == 1) return std::make_unique<Guesses>(rules, proposals);
  std::vector<int64_t> proposing;
  for (size_t member = 0; member < models.size(); ++member)
    if (models[member]->proposes()) proposing.push_back(int64_t(member));
  if (models[proposing[0]]->has_sequential())
    return std::make_unique<SequentialProposer>(proposing, rules, layers, proposals);
  return std::make_unique<ParallelProposer>(proposing, rules, layers, proposals);
}

}  // namespace fastdec
