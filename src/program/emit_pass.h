#pragma once

#include <vector>

#include "base/id_vector.h"
#include "plan/tiles/tiles.h"
#include "program/emit.h"

namespace outsize {

// Emits the instructions of one pass: what lives through it, then tile after tile, repeating tiles as loops.
class PassEmitter {
 public:
  PassEmitter(Emitter& emitter, int pass);
  void emit();

 private:
  // A piece of the tile: the box it holds moves with the tile.
  struct Local {
    ValueId value;
    Box box;
    PieceId piece;
  };

  void open();
  void open_takeovers();
  void open_windows();
  void emit_tiles();
  void emit_tiles_ahead();
  // With copies ahead: loads the windows of a tile into one of their two places.
  void load(const Dims& at, std::size_t place);
  // `place`: where they are.
  void tile(const Dims& at, std::size_t place = 0);
  void call(int op_of_pass);
  void close();

  void check_channels() const;
  bool is_gradient(ValueId value) const;
  Operand fetch(ValueId value, const Box& box);
  Operand fetch_flowing(ValueId value, const Box& box);
  Operand local_operand(PieceId piece, ValueId value, const Box& holds, const Box& box);
  Operand pass_operand(PieceId piece, ValueId value, const Box& box);  // of a whole piece
  PieceId new_local(ValueId value, const Box& box, const char* part);
  void copy(const Operand& from, const Operand& to);
  void combine(Combine how, const Operand& from, const Operand& to);
  void zero(const Operand& to);
  void zero_on_disk(PieceId piece, ValueId value);

  // Makes the tile's piece of an output from what the call computed (none: the call was skipped).
  void settle(ValueId value, const Local* computed);
  void settle_reduced(ValueId value, const Local& computed, Combine how);
  void take_carry(ValueId value, const TileBoxes& boxes, const Local& piece);
  void give_carry(ValueId value, const TileBoxes& boxes, const Local& piece);
  void save_for_later_passes(ValueId value, const TileBoxes& boxes, const Local& piece);
  void leave(ValueId value, const Local& piece);
  Dims step_of(ValueId value) const;
  const Local* find_local(ValueId value, const Box& box) const;

  Emitter& emitter_;
  const Graph& graph_;
  const int pass_index_;
  const Pass& pass_;
  PassTiles tiles_;
  std::vector<bool> recompute_;                 // by op of the pass
  std::vector<int> order_;                      // of ops of the pass, in a tile
  IdVector<ValueId, PieceId> carry_;            // the slot its carried rows wait in
  IdVector<ValueId, PieceId> whole_;            // where it is stored or accumulated
  std::vector<std::pair<int, ValueId>> saves_;  // (later pass, value) whose carried rows this pass saves
  bool rolls_ = true;
  std::int32_t begin_ = 0;

  // With copies ahead, of a value that is streamed in.
  struct Window {
    ValueId value;
    PieceId places[2];
  };
  bool ahead_ = false;
  std::vector<Window> windows_;
  std::vector<PieceId> leaving_;  // what the tile at hand stores

  Dims at_;                    // the tile being emitted
  std::int64_t per_loop_ = 0;  // tiles that an iteration of the loop at hand runs; 0: there is no loop
  std::vector<Local> locals_;  // the tile's pieces of values, newest last
};

}  // namespace outsize
