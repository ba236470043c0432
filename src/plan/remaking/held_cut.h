#pragma once

#include <vector>

#include "plan/remaking/problem.h"

namespace outsize {

// Which results of forward to hold until backward where a held byte costs `price` seconds: a cheapest cut between all that is run
// again and all that backward reads. By value.
Table<bool> held_by_price(const RemakeProblem& problem, double price);

// The choices for prices from low to high, each once, at most `count` of them.
std::vector<Table<bool>> held_by_prices(const RemakeProblem& problem, int count);

// The sequence in which nothing but `held` outlives forward; backward makes the rest again when it first reads it, once.
std::vector<std::int32_t> remake_once(const RemakeProblem& problem, const Table<bool>& held);

}  // namespace outsize
