#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace outsize {

// The properties of a card, in cuDNN's JSON, by which cuDNN plans for it where it is not; empty for a device that it cannot plan
// for so. `device` is a name of devices().
std::string cudnn_description(std::string_view device);

// The devices that have one.
std::vector<std::string_view> cudnn_described();

}  // namespace outsize
