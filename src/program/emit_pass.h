#pragma once

#include <span>
#include <vector>

#include "base/id_vector.h"
#include "plan/tiles/tile_walk.h"
#include "program/emit.h"

namespace outsize {

// Emits the instructions of one pass: what lives through it, then tile after tile, repeating tiles as loops.
class PassEmitter : private TileActions {
 public:
  PassEmitter(Emitter& emitter, int pass);
  void emit();

 private:
  void open();
  void open_takeovers();
  void open_windows(std::span<const Dims> all);
  void emit_tiles();
  void emit_tiles_ahead();
  // With copies ahead: loads the windows of a tile into one of their two places.
  void load(const Dims& at, std::size_t place);
  // `place`: where they are.
  void tile(const Dims& at, std::size_t place = 0);
  void close();

  void check_channels() const;
  Operand local_operand(PieceId piece, ValueId value, const Box& holds, const Box& box);
  Operand pass_operand(PieceId piece, ValueId value, const Box& box);  // of a whole piece
  void copy(const Operand& from, const Operand& to);
  void zero(const Operand& to);
  void zero_on_disk(PieceId piece, ValueId value);
  Dims step_of(ValueId value) const;
  Operand operand(const TileOperand& of);

  // What the tile at hand does. Pieces have the program's numbers.
  bool on_device(ValueId value) override;
  std::int32_t loaded(ValueId value) override;
  std::int32_t piece(ValueId value, const Box& box, const char* part) override;
  void load(const TileOperand& from, const TileOperand& to) override;
  void store(const TileOperand& from, const TileOperand& to) override;
  void copy(const TileOperand& from, const TileOperand& to) override;
  void combine(Combine how, const TileOperand& from, const TileOperand& to) override;
  void zero(const TileOperand& to) override;
  void call(int op_of_pass, const Call& call, std::span<const TileOperand> reads, std::span<const TileOperand> writes) override;
  void take_saved(const TileOperand& to) override;
  void save(const TileOperand& from) override;
  void keep_stored(const TileOperand& from) override;

  Emitter& emitter_;
  const Graph& graph_;
  const int pass_index_;
  const Pass& pass_;
  PassTiles tiles_;
  TileWalk walk_;
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
  std::size_t place_ = 0;      // of its windows
  std::int64_t per_loop_ = 0;  // tiles that an iteration of the loop at hand runs; 0: there is no loop
};

}  // namespace outsize
