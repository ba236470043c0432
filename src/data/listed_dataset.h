#pragma once

#include "data/listing.h"

namespace outsize {

// The images and slides of a listing. Throws UserError when they do not suit the model.
std::shared_ptr<const Dataset> make_listed_dataset(Listing listing, const DataOptions& options);

}  // namespace outsize
