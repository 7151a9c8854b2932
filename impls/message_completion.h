// SPDX-License-Identifier: Apache-2.0
// When messages of an exchange complete: a property of the transport, which decides what can wait
// for itself.
#pragma once

#include <cstdint>

namespace commfuse {

enum class MessageCompletion : std::uint8_t {
  each_message,  // a message when both of its sides have started
  joint,  // all messages of an exchange when all of their other sides have started; the next op of
          // the lane starts no earlier. So do grouped sends and receives of NCCL on a stream
};

}  // namespace commfuse
