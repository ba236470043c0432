#include <gtest/gtest.h>

#include "base/error.h"
#include "base/text.h"

namespace outsize {
namespace {

TEST(BaseText, EditDistance) {
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);  // k→s, e→i, +g
  EXPECT_EQ(edit_distance("conv2d", "conv2d"), 0);
  EXPECT_EQ(edit_distance("trian", "train"), 1);  // a swap
  EXPECT_EQ(edit_distance("ca", "abc"), 3);       // a swapped pair is not changed again: c→a, a→b, +c
}

TEST(BaseText, SuggestsTheNearestOnlyWhenNear) {
  const std::vector<std::string_view> kinds{"conv2d", "conv2d_grad_data", "concat", "relu"};
  EXPECT_EQ(did_you_mean("conv2", kinds), "; did you mean 'conv2d'?");
  EXPECT_EQ(did_you_mean("cnocat", kinds), "; did you mean 'concat'?");  // a swap
  EXPECT_EQ(did_you_mean("canctt", kinds), "; did you mean 'concat'?");  // two changes, a third of six letters
  EXPECT_EQ(did_you_mean("canctx", kinds), "");                          // three
  EXPECT_EQ(did_you_mean("con", kinds), "; did you mean 'conv2d'?");     // the shortest that begins so
  EXPECT_EQ(did_you_mean("softmax", kinds), "");
  EXPECT_EQ(did_you_mean("re", kinds), "");  // any other word of two letters is as near
  EXPECT_EQ(did_you_mean("x", {}), "");
}

// 200,000² steps would be a minute for one message.
TEST(BaseText, LongNamesAreNotMatched) {
  const std::string name(200000, 'a'), other(200000, 'b');
  EXPECT_EQ(did_you_mean(name, std::vector<std::string_view>{other}), "");
}

TEST(BaseText, QuotedTextIsOneShortLine) {
  EXPECT_EQ(in_quotes(""), "''");
  EXPECT_EQ(in_quotes("a\n\x1b[1m\x7f"), "'a\\x0a\\x1b[1m\\x7f'");
  EXPECT_EQ(in_quotes("größe"), "'größe'");
  EXPECT_EQ(in_quotes(std::string(80, 'x')), "'" + std::string(80, 'x') + "'");
  EXPECT_EQ(in_quotes(std::string(81, 'x')), "'" + std::string(80, 'x') + "…'");
  EXPECT_EQ(in_quotes(std::string(79, 'x') + "öö"), "'" + std::string(79, 'x') + "…'");  // ö is two bytes, the 80th and the 81st
}

TEST(BaseText, Names) {
  EXPECT_TRUE(is_name("layer1.0/conv-1_w"));
  EXPECT_FALSE(is_name(""));
  EXPECT_FALSE(is_name("_"));
  EXPECT_FALSE(is_name("a b"));
  EXPECT_FALSE(is_name("a:b"));
}

TEST(BaseText, NumbersAreWholeWords) {
  double number = 0;
  std::int64_t integer = 0;
  EXPECT_TRUE(parse_number("1e-05", number) && number == 1e-5);
  EXPECT_TRUE(parse_number("1e+20", number) && number == 1e20);
  EXPECT_FALSE(parse_number("inf", number));
  EXPECT_FALSE(parse_number("1.5x", number));
  EXPECT_TRUE(parse_integer("-9223372036854775808", integer));
  EXPECT_FALSE(parse_integer("9223372036854775808", integer));
  EXPECT_FALSE(parse_integer("1.0", integer));
}

TEST(BaseText, CursorSaysWhatItFound) {
  LineCursor line(" name [1, x]");
  EXPECT_EQ(line.name("a name"), "name");
  try {
    line.integers("the extents");
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "expected an integer, found 'x'");
  }
  LineCursor rest("a  b c");
  rest.name("a name");
  try {
    rest.finish();
    FAIL();
  } catch (const UserError& error) {
    EXPECT_STREQ(error.what(), "expected the end of the line, found 'b'");
  }
}

}  // namespace
}  // namespace outsize
