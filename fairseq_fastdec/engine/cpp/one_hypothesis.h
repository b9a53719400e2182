// The base of searches with one hypothesis per sentence.

#pragma once

#include "rows.h"
#include "search.h"

namespace fastdec {

// A search decides what each row is fed, and what is kept.
class OneHypothesis : public Search {
 public:
  OneHypothesis(Models models, Rules rules, int64_t n_best)
      : Search(std::move(models), std::move(rules), n_best) {}

 protected:
  void step() override;
  // Sets `feed`.
  virtual void propose() = 0;
  // Whether the scores of proposals are needed, not only whether they are the best tokens.
  virtual bool asks() const { return false; }
  // Keeps the accepted part of a row's block; returns whether the sentence has ended. Called from
  // the last row to the first.
  virtual bool keep(int64_t row) = 0;
  // Called after a row has been added, and before it is removed, when the last row takes its place.
  virtual void joined(int64_t) {}
  virtual void left(int64_t) {}

  // The tokens at the beginning of a new row's block.
  std::vector<int64_t> opening_of(const Row &row) const;
  // Appends the tokens [first, last) of a row's block to the output, up to EOS; returns their
  // number.
  int64_t append_block(int64_t row, int64_t first, int64_t last);
  // Keeps the first n tokens of a row's block in the decoder. The attention of each is that of the
  // token that it predicts.
  void keep_fed(int64_t row, int64_t n);
  // Appends a token; returns whether it ends the sentence.
  bool append(Row &row, int64_t token, float score);
  // The index of a token of a row's block in the step.
  int64_t place(int64_t row, int64_t number) const { return feed.begins[row] + number; }

  std::vector<Row> rows;
  Feed feed;
  Answers answers;

 private:
  int64_t n_under_way() const override { return int64_t(rows.size()); }
  std::vector<const Request *> under_way() const override;
  int64_t n_due() override { return int64_t(waiting.size()); }
  void begin(Request request) override;
  bool drop(int64_t id) override;
  // Sets the limits of the answers after each token, and the tokens whose scores are needed.
  void restrict();
  void leave(int64_t row);
};

}  // namespace fastdec
