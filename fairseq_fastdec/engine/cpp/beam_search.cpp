#include "beam_search.h"

namespace fastdec {

BeamSearch::BeamSearch(Models models, Rules given, const BeamOptions &options)
    : Search(std::move(models), std::move(given), options.n_candidates()),
      options(options),
      schedule({}, options.beam),
      beams(options, rules) {
  if (options.sampling) sampler.emplace(options.draws, options.beam);
  candidates.of_rows = options.diverse_beam_groups > 0;
}

std::vector<const Request *> BeamSearch::under_way() const {
  std::vector<const Request *> requests;
  for (int64_t slot : slots_under_way) requests.push_back(&sentences[slot]);
  return requests;
}

int64_t BeamSearch::n_due() {
  Load load;
  for (int64_t slot : slots_under_way) {
    load.sentences += 1, load.rows += double(beams[slot].width());
    load.source_tokens += double(sentences[slot].n_source);
  }
  if (!schedule.is_due(load)) return 0;
  int64_t n = 0;
  while (n < int64_t(waiting.size()) && schedule.add(waiting[n].n_source, load)) ++n;
  return n;
}

void BeamSearch::begin(Request request) {
  const int64_t slot = beams.begin(request.bos, request.constraints);
  if (slot >= int64_t(sentences.size())) sentences.resize(slot + 1);
  sentences[slot] = std::move(request);
  slots_under_way.push_back(slot);
}

void BeamSearch::step() {
  choose();
  expand();
  keep();
}

std::vector<int64_t> BeamSearch::first_rows() const {
  std::vector<int64_t> first = {0};
  for (int64_t slot : slots_under_way) first.push_back(first.back() + beams[slot].width());
  return first;
}

void BeamSearch::choose() {
  std::vector<int64_t> lengths, widths;
  for (int64_t slot : slots_under_way)
    lengths.push_back(beams[slot].length), widths.push_back(beams[slot].width());
  const std::vector<uint8_t> chosen = schedule.choose(lengths, widths);
  const std::vector<int64_t> first = first_rows();
  std::vector<int64_t> slots, rows;
  for (const bool is_chosen : {false, true}) {
    if (is_chosen) n_resting = int64_t(slots.size());
    for (size_t place = 0; place < slots_under_way.size(); ++place) {
      if (bool(chosen[place]) != is_chosen) continue;
      slots.push_back(slots_under_way[place]);
      for (int64_t row = first[place]; row < first[place + 1]; ++row) rows.push_back(row);
    }
  }
  if (slots != slots_under_way) decoder.gather(rows);
  slots_under_way.swap(slots);
  beams.focus({slots_under_way.begin() + n_resting, slots_under_way.end()});
}

void BeamSearch::expand() {
  const BeamRows rows = beams.rows();
  const int64_t first = decoder.n_rows() - rows.n_rows;
  clock.count(counters.seconds.search);
  decoder.step(beams.next_tokens(), even_begins(rows.n_rows, 1), first);
  clock.count(counters.seconds.decoder);
  for (int64_t row = first; row < decoder.n_rows(); ++row) decoder.keep(row, 1);
  keep_attention();
  ++counters.decoder_invocations;
  counters.row_invocations += rows.n_rows;
  counters.beam_steps += rows.n_beams;
  for (size_t place = n_resting; place < slots_under_way.size(); ++place)
    counters.waiting += int64_t(beams[slots_under_way[place]].waiting.size());
  restrict();
  clock.count(counters.seconds.search);
  if (sampler)
    draw(rows);
  else
    chooser.extend(decoder, rows, options.max_candidates, limits, candidates);
  clock.count(counters.seconds.choice);
}

void BeamSearch::keep_attention() {
  const int64_t n = beams.rows().n_rows, first = decoder.n_rows() - n;
  for (int64_t row = 0; row < n; ++row) {
    const int64_t slot = beams.slot_of(row);
    if (sentences[slot].return_attention)
      decoder.append_attention(first + row, row, beams.attention_of(slot));
  }
}

void BeamSearch::draw(const BeamRows &rows) {
  std::vector<Draws> draws;
  for (size_t place = n_resting; place < slots_under_way.size(); ++place) {
    const int64_t slot = slots_under_way[place];
    draws.push_back({sentences[slot].random_state, beams[slot].length});
  }
  sampler->extend(decoder, chooser, rows, draws, limits, candidates);
}

void BeamSearch::restrict() {
  const int64_t n = beams.rows().n_rows;
  limits.clear(n);
  for (size_t place = n_resting; place < slots_under_way.size(); ++place) {
    const int64_t slot = slots_under_way[place];
    limits.add_states(beams[slot].width(), sentences[slot]);
  }
  for (int64_t row = 0; row < n; ++row) {
    const int64_t slot = beams.slot_of(row), step = beams[slot].length;
    const Request &sentence = sentences[slot];
    limits.ends.set(row, rules, step, sentence);
    if (options.match_source_len) match_length(row, step, sentence);
    const bool is_in_prefix = step < int64_t(sentence.forced.size());
    // transformers gives these tokens the score 0.
    limits.is_free[row] = options.is_hf() && (is_in_prefix || limits.ends.has_to_end(row));
    if (is_in_prefix) {
      // A prefix may repeat n-grams.
      limits.only[row] = sentence.forced[step];
      limits.some_only = true;
    } else if (!beams.want(row, sentence, limits) &&
               (rules.no_repeat_ngram || !sentence.forbidden.empty())) {
      limits.forbid(row, rules, sentence, beams.context(row));
    }
  }
}

void BeamSearch::match_length(int64_t row, int64_t step, const Request &sentence) {
  if (step >= sentence.n_source - !options.counts_source_end)
    limits.end_is_free[row] = 1;
  else if (!limits.ends.has_to_end(row))
    limits.ends.forbid_end(row);
}

void BeamSearch::keep() {
  beams.judge(candidates);
  const int64_t first = decoder.n_rows() - beams.rows().n_rows;
  std::vector<int64_t> kept, slots(slots_under_way.begin(), slots_under_way.begin() + n_resting);
  for (int64_t beam = 0; beam < beams.rows().n_beams; ++beam) {
    const int64_t slot = slots_under_way[n_resting + beam];
    if (beams.is_done(beam)) {
      leave(slot);
    } else {
      kept.push_back(beam);
      slots.push_back(slot);
    }
  }
  std::vector<int64_t> origins;
  beams.extend(kept, origins);
  for (int64_t &origin : origins) origin += first;
  std::vector<int64_t> resting(first);
  std::iota(resting.begin(), resting.end(), 0);
  origins.insert(origins.begin(), resting.begin(), resting.end());
  decoder.gather(origins);
  slots_under_way.swap(slots);
}

void BeamSearch::leave(int64_t slot) {
  done.push_back({sentences[slot].id, beams.hypotheses(slot), beams[slot].steps,
                  beams[slot].expansions, {}, {}});
  beams.end(slot);
}

bool BeamSearch::drop(int64_t id) {
  for (size_t place = 0; place < slots_under_way.size(); ++place)
    if (sentences[slots_under_way[place]].id == id) {
      drop_rows(first_rows()[place], beams[slots_under_way[place]].width());
      beams.end(slots_under_way[place]);
      slots_under_way.erase(slots_under_way.begin() + place);
      return true;
    }
  return false;
}

}  // namespace fastdec
