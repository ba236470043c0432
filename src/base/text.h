#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "outsize/text.h"

namespace outsize {

// The number of insertions, deletions and replacements of single characters, and of swaps of two neighbours, that turn `a` into
// `b`.
std::int64_t edit_distance(std::string_view a, std::string_view b);

// `text`, which came from a file, in quotes as a message shows it: on one line, unprintable bytes as \xNN, cut where it is long.
std::string in_quotes(std::string_view text);

// Whether `text` can name a value, an op or a graph: letters, digits and _ . - /, one letter or digit at least.
bool is_name(std::string_view text);

// Reads one line from left to right: a hand-written parser's whole lexer. Every function skips blanks first, and fails with a
// UserError that says what was expected and what was found.
class LineCursor {
 public:
  explicit LineCursor(std::string_view line) : rest_(line) {}

  bool at_end();
  // Whether the next character is `c`; consumes nothing.
  bool peek(char c);
  // Consumes `c` if it is next.
  bool accept(char c);
  // Consumes `c`; `where` completes "expected 'c' …".
  void expect(char c, std::string_view where);
  // A name as is_name() has it; `what` says which one for the message.
  std::string_view name(std::string_view what);
  std::int64_t integer(std::string_view what);
  // The characters of a name or a number (a '+' included).
  std::string_view word(std::string_view what);
  // "[1, 2]"
  std::vector<std::int64_t> integers(std::string_view what);
  // Fails unless the line has ended.
  void finish();

 private:
  std::string found();
  void skip_blanks();

  std::string_view rest_;
};

}  // namespace outsize
