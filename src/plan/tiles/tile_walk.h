#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "plan/tiles/tiles.h"

namespace outsize {

// Bytes that a tile reads or writes: `box` of a value.
struct TileOperand {
  enum class In : std::uint8_t {
    piece,  // a piece of the tile, which holds `holds`
    whole,  // the value as it lies on the device as a whole
    lower,  // the value in its lower tier
    carry,  // the rows that wait for the next tile, which are `box` and nothing else
  };

  In in = In::piece;
  std::int32_t piece = -1;  // its number
  ValueId value;
  Box holds;
  Box box;
};

// What a tile does, told action by action in the order in which it does it. Who is told numbers the tile's pieces as it likes.
class TileActions {
 public:
  virtual ~TileActions() = default;

  // Whether a value that is made elsewhere is on the device as a whole; else it is read from its lower tier.
  virtual bool on_device(ValueId value) = 0;
  // The piece that the window of a value was loaded into before the tile began (Pass::ahead), or −1.
  virtual std::int32_t loaded(ValueId value) = 0;
  // A new piece of the tile, on the device. It lives from the first action that touches it to the last.
  virtual std::int32_t piece(ValueId value, const Box& box, const char* part) = 0;

  // From a lower tier to a piece, and from a piece to a lower tier.
  virtual void load(const TileOperand& from, const TileOperand& to) = 0;
  virtual void store(const TileOperand& from, const TileOperand& to) = 0;
  virtual void copy(const TileOperand& from, const TileOperand& to) = 0;
  virtual void combine(Combine how, const TileOperand& from, const TileOperand& to) = 0;
  virtual void zero(const TileOperand& to) = 0;
  virtual void call(int op_of_pass, const Call& call, std::span<const TileOperand> reads, std::span<const TileOperand> writes) = 0;
  // The rows of `to.box` that an earlier pass has saved come to the piece.
  virtual void take_saved(const TileOperand& to) = 0;
  // The tile has computed `from.box` of the piece; what later passes want saved of it goes there.
  virtual void save(const TileOperand& from) = 0;
  // What was stored last stays in its piece while the next tile runs, where copies run ahead.
  virtual void keep_stored(const TileOperand& from) = 0;
};

// Tells what the tiles of a pass do: once for those who lower a plan and those who reckon what it takes.
class TileWalk {
 public:
  TileWalk(const PassTiles& tiles, const Plan& plan, TileActions& actions);

  // The tile at that place of the grid, its ops in that order (see order_of_calls()).
  void run(const Dims& tile, std::span<const int> order);

 private:
  // A piece of the tile, in the list of those of its value.
  struct Local {
    std::int32_t piece = -1;
    Box box;
    std::int32_t older = -1;  // the one of the same value before it
  };

  void call(int op_of_pass);
  TileOperand fetch(ValueId value, const Box& box);
  TileOperand fetch_flowing(ValueId value, const Box& box);
  void settle(ValueId value, const TileOperand* computed);
  void take_carry(ValueId value, const TileBoxes& boxes, const TileOperand& piece);
  void give_carry(ValueId value, const TileBoxes& boxes, const TileOperand& piece);
  void leave(ValueId value, const TileOperand& piece);

  const Local* find(ValueId value, const Box& box) const;
  void remember(const TileOperand& piece);
  TileOperand new_piece(ValueId value, const Box& box, const char* part);
  static TileOperand part_of(TileOperand piece, const Box& box) {
    piece.box = box;
    return piece;
  }
  bool is_gradient(ValueId value) const;

  const PassTiles& tiles_;
  const Graph& graph_;
  const Plan& plan_;
  TileActions& actions_;
  Dims at_;
  std::vector<Local> locals_;         // of the tile
  std::vector<std::int32_t> newest_;  // by slot of the pass: the newest of the value, or −1
  std::vector<TileOperand> reads_, writes_;
};

// What a pass holds on the device from its first tile to its last, besides what it makes: the rows of a value that wait between
// tiles, and, where copies run ahead, the window of a value, which has two such places. Each is as large as the largest of these
// tiles has it; empty where there is none.
Box carry_slot(const PassTiles& tiles, ValueId value, std::span<const Dims> of);
Box window_place(const PassTiles& tiles, ValueId value, std::span<const Dims> of);

}  // namespace outsize
