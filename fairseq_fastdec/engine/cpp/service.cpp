#include "service.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace fastdec {

namespace {

// The number of batches without sentences that a worker keeps.
constexpr int64_t MOST_IDLE = 4;

}  // namespace

Mailbox::Mailbox() {
  if (pipe(ends)) throw std::system_error(errno, std::generic_category(), "pipe");
  for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
}

Mailbox::~Mailbox() {
  for (int end : ends) ::close(end);
}

void Mailbox::put(Ended sentence) {
  const std::lock_guard<std::mutex> lock(mutex);
  sentences.push_back(std::move(sentence));
  // At most one byte is in the pipe, so this does not block.
  if (sentences.size() == 1)
    while (write(ends[1], "", 1) < 0 && errno == EINTR) {
    }
}

std::vector<Ended> Mailbox::take() {
  const std::lock_guard<std::mutex> lock(mutex);
  return std::exchange(sentences, {});
}

Service::Service(const ServiceOptions &options) : options(options), workers(options.workers) {
  try {
    for (Worker &worker : workers)
      worker.thread = std::thread(&Service::work, this, std::ref(worker));
  } catch (...) {
    close();  // the destructor of a running thread would end the process
    throw;
  }
}

bool Service::submit(Arrival arrival, int64_t most_waiting) {
  const std::lock_guard<std::mutex> lock(mutex);
  if (!is_open || int64_t(waiting.size()) >= most_waiting) return false;
  const int64_t id = arrival.id;
  const Key key = {options.takes_shortest ? arrival.n_tokens : 0, id};
  waiting.emplace(key, std::move(arrival));
  waiting_ids.emplace(id, key);
  arrived.notify_one();
  return true;
}

bool Service::cancel(int64_t id) {
  const std::lock_guard<std::mutex> lock(mutex);
  const auto key = waiting_ids.find(id);
  if (key != waiting_ids.end()) {
    waiting.erase(key->second);
    waiting_ids.erase(key);
    return true;
  }
  const auto place = under_way.find(id);
  if (place == under_way.end()) return false;
  Worker &worker = *place->second.worker;
  worker.cancelled.push_back(id);
  --worker.n_sentences;
  under_way.erase(place);
  return true;
}

std::pair<int64_t, int64_t> Service::queued() {
  const std::lock_guard<std::mutex> lock(mutex);
  return {int64_t(waiting.size()), int64_t(under_way.size())};
}

void Service::close() {
  {
    const std::lock_guard<std::mutex> lock(mutex);
    is_open = false;
    arrived.notify_all();
  }
  for (Worker &worker : workers)
    if (worker.thread.joinable()) worker.thread.join();
}

void Service::work(Worker &own) {
  std::vector<Arrival> joining;
  std::vector<Ended> ended;
  std::vector<int64_t> cancelled;
  for (;;) {
    joining.clear(), cancelled.clear();
    deliver(own, ended);
    {
      std::unique_lock<std::mutex> lock(mutex);
      for (;;) {
        take(own, joining);
        if (own.n_sentences || !own.cancelled.empty()) break;
        if (!is_open && waiting.empty()) return;
        arrived.wait(lock);
      }
      cancelled.swap(own.cancelled);
    }
    drop(own, cancelled);
    for (Arrival &arrival : joining) join(own, arrival, ended);
    for (OwnBatch &batch : own.batches) step(batch, ended);
  }
}

void Service::deliver(Worker &own, std::vector<Ended> &ended) {
  for (Ended &sentence : ended) {
    std::shared_ptr<Mailbox> mailbox;
    {
      const std::lock_guard<std::mutex> lock(mutex);
      const auto place = under_way.find(sentence.id);
      // It may have been cancelled in the meantime.
      if (place == under_way.end()) continue;
      mailbox = std::move(place->second.mailbox);
      under_way.erase(place);
      --own.n_sentences;
    }
    mailbox->put(std::move(sentence));
  }
  ended.clear();
}

void Service::take(Worker &own, std::vector<Arrival> &joining) {
  if (waiting.empty()) return;
  const bool is_busy = 2 * own.n_sentences > options.capacity;
  if (is_busy && seconds_waiting() < options.max_wait) return;
  const int64_t n_workers = int64_t(workers.size());
  const int64_t n_all = int64_t(waiting.size() + under_way.size());
  const int64_t share = std::min((n_all + n_workers - 1) / n_workers, options.capacity);
  while (own.n_sentences < share && !waiting.empty()) {
    const auto first = waiting.find(next());
    const int64_t id = first->second.id;
    under_way[id] = {&own, std::move(first->second.mailbox)};
    joining.push_back(std::move(first->second));
    waiting.erase(first);
    waiting_ids.erase(id);
    ++own.n_sentences;
  }
}

Service::Key Service::next() const {
  return seconds_waiting() > options.longest_wait ? waiting_ids.begin()->second
                                                  : waiting.begin()->first;
}

double Service::seconds_waiting() const {
  const Arrival &oldest = waiting.at(waiting_ids.begin()->second);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - oldest.since).count();
}

void Service::join(Worker &own, Arrival &arrival, std::vector<Ended> &ended) {
  const auto has_recipe = [&](const OwnBatch &batch) { return batch.recipe == arrival.recipe; };
  const auto known = std::find_if(own.batches.begin(), own.batches.end(), has_recipe);
  if (known != own.batches.end()) {
    std::rotate(known, known + 1, own.batches.end());
  } else {
    int64_t n_idle = 0;
    for (auto batch = own.batches.end(); batch != own.batches.begin();)
      if ((--batch)->ids.empty() && ++n_idle >= MOST_IDLE) batch = own.batches.erase(batch);
    own.batches.push_back({arrival.recipe, nullptr, {}});
  }
  OwnBatch &batch = own.batches.back();
  try {
    if (!batch.batch) batch.batch = batch.recipe->begin();
    arrival.join(*batch.batch);
    batch.ids.insert(arrival.id);
  } catch (const std::exception &error) {
    ended.push_back({arrival.id, {}, error.what()});
  }
}

void Service::drop(Worker &own, const std::vector<int64_t> &ids) {
  for (int64_t id : ids)
    for (OwnBatch &batch : own.batches)
      if (batch.ids.erase(id)) batch.batch->cancel(id);
}

void Service::step(OwnBatch &own, std::vector<Ended> &ended) {
  if (own.ids.empty()) return;
  const size_t first = ended.size();
  try {
    own.batch->advance(options.threads, ended);
    for (size_t i = first; i < ended.size(); ++i) own.ids.erase(ended[i].id);
  } catch (const std::exception &error) {  // such as std::bad_alloc, reported to all callers
    ended.resize(first);
    for (int64_t id : own.ids) ended.push_back({id, {}, error.what()});
    own.ids.clear();
    own.batch.reset();
  }
}

}  // namespace fastdec
