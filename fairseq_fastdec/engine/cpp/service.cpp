#include "service.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

namespace fastdec {

namespace {

// The number of searches without sentences that a worker keeps.
constexpr int64_t MOST_IDLE = 4;

Result failed(int64_t id, const std::exception &error) {
  Result result;
  result.id = id, result.error = error.what();
  return result;
}

}  // namespace

Mailbox::Mailbox() {
  if (pipe(ends)) throw std::system_error(errno, std::generic_category(), "pipe");
  for (int end : ends) fcntl(end, F_SETFD, FD_CLOEXEC);
}

Mailbox::~Mailbox() {
  for (int end : ends) ::close(end);
}

void Mailbox::put(Result sentence) {
  const std::lock_guard<std::mutex> lock(mutex);
  sentences.push_back(std::move(sentence));
  // At most one byte is in the pipe, so this does not block.
  if (sentences.size() == 1)
    while (write(ends[1], "", 1) < 0 && errno == EINTR) {
    }
}

std::vector<Result> Mailbox::take() {
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
  const int64_t id = arrival.request.id;
  const Key key = {options.takes_shortest ? arrival.request.n_source : 0, id};
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
  std::vector<Result> done;
  std::vector<int64_t> cancelled;
  for (;;) {
    joining.clear(), cancelled.clear();
    deliver(own, done);
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
    for (Arrival &arrival : joining) join(own, arrival, done);
    for (OwnSearch &search : own.searches) step(search, done);
  }
}

void Service::deliver(Worker &own, std::vector<Result> &done) {
  for (Result &sentence : done) {
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
  done.clear();
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
    const int64_t id = first->second.request.id;
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

void Service::join(Worker &own, Arrival &arrival, std::vector<Result> &done) {
  std::vector<OwnSearch> &searches = own.searches;
  const auto is_alike = [&](const OwnSearch &search) { return search.make == arrival.make; };
  const auto known = std::find_if(searches.begin(), searches.end(), is_alike);
  if (known != searches.end()) {
    std::rotate(known, known + 1, searches.end());
  } else {
    int64_t n_idle = 0;
    for (auto search = searches.end(); search != searches.begin();)
      if ((--search)->ids.empty() && ++n_idle >= MOST_IDLE) search = searches.erase(search);
    searches.push_back({arrival.make, nullptr, {}});
  }
  OwnSearch &joined = searches.back();
  const int64_t id = arrival.request.id;
  try {
    if (!joined.search) joined.search = (*joined.make)();
    joined.search->admit(std::move(arrival.request));
    joined.ids.insert(id);
  } catch (const std::exception &error) {
    done.push_back(failed(id, error));
  }
}

void Service::drop(Worker &own, const std::vector<int64_t> &ids) {
  for (int64_t id : ids)
    for (OwnSearch &search : own.searches)
      if (search.ids.erase(id)) search.search->cancel(id);
}

void Service::step(OwnSearch &own, std::vector<Result> &done) {
  if (own.ids.empty()) return;
  try {
    own.search->advance(1, options.threads);
    for (Result &result : own.search->finished()) {
      own.ids.erase(result.id);
      done.push_back(std::move(result));
    }
  } catch (const std::exception &error) {  // such as std::bad_alloc, reported to all callers
    for (int64_t id : own.ids) done.push_back(failed(id, error));
    own.ids.clear();
    own.search.reset();
  }
}

}  // namespace fastdec
