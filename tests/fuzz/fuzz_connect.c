/*
 * Envelopes of the Connect protocol and the messages in them, as a stream of input takes them apart.
 * Whatever comes must be a message, a wait for more or a refusal, and every read stays in the bytes.
 */
#include <errno.h>
#include <string.h>
#include "api/e2b/connect.h"
#include "fuzz.h"

#define MAX_MESSAGE 4096

static void read_fields(const json_t *message)
{
    static const char *const names[] = {"process", "pid", "tag", "input", "stdin", "watcherId"};
    struct atoll_error error;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(names); i++) {
        const char *text = NULL;
        uint32_t number = 0;
        bool flag = false;
        if (atoll_connect_text(message, names[i], &text, &error) == 0 && text)
            FUZZ_CHECK(strlen(text) <= MAX_MESSAGE);
        (void)!atoll_connect_u32(message, names[i], &number, &error);
        (void)!atoll_connect_flag(message, names[i], &flag, &error);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    size_t at = 0;

    while (at < size) {
        struct atoll_connect_frame frame;
        struct atoll_error error;
        json_t *message;
        ssize_t used = atoll_connect_take(data + at, size - at, MAX_MESSAGE, &frame);
        if (used <= 0) {
            FUZZ_CHECK(used == 0 || used == -EBADMSG || used == -EMSGSIZE);
            break;
        }
        FUZZ_CHECK((size_t)used == ATOLL_CONNECT_HEAD + frame.len && (size_t)used <= size - at);
        FUZZ_CHECK(frame.len <= MAX_MESSAGE && frame.message == data + at + ATOLL_CONNECT_HEAD);
        if (atoll_connect_parse(frame.message, frame.len, &message, &error) == 0) {
            read_fields(message);
            json_decref(message);
        }
        at += (size_t)used;
    }
    return 0;
}
