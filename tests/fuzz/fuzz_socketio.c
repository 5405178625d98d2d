/* Frames of Socket.IO from clients. Texts end inside their bounds, and only a CONNECT has a token. */
#include <string.h>
#include "api/daytona/socketio_frames.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct atoll_sio_frame frame;

    atoll_sio_parse(data, size, &frame);
    FUZZ_CHECK(strnlen(frame.token, sizeof(frame.token)) <= ATOLL_SIO_TOKEN_MAX);
    FUZZ_CHECK(strnlen(frame.data, sizeof(frame.data)) <= ATOLL_SIO_DATA_MAX);
    FUZZ_CHECK(frame.kind == ATOLL_SIO_CONNECT || frame.kind == ATOLL_SIO_BAD || !frame.token[0]);
    FUZZ_CHECK(frame.kind == ATOLL_SIO_PING || !frame.data[0]);
    FUZZ_CHECK(frame.kind == ATOLL_SIO_BAD || (size > 0 && data[0] >= '1' && data[0] <= '4'));
    return 0;
}
