/*
 * API keys as E2B's clients require them: "e2b_" and the 40 random characters of our key in hex.
 */
#include <string.h>
#include "access/access.h"
#include "api/e2b/e2b.h"

#define PREFIX "e2b_"
#define OWN_PREFIX_LEN (sizeof(ATOLL_KEY_PREFIX) - 1)
#define RANDOM_LEN (ATOLL_KEY_LEN - OWN_PREFIX_LEN)
#define LEN (sizeof(PREFIX) - 1 + 2 * RANDOM_LEN)

static void write_key(const char *key, char *out)
{
    static const char digits[] = "0123456789abcdef";
    const char *random = key + OWN_PREFIX_LEN;

    out = stpcpy(out, PREFIX);
    for (size_t i = 0; i < RANDOM_LEN; i++) {
        *out++ = digits[(uint8_t)random[i] >> 4];
        *out++ = digits[random[i] & 15];
    }
    *out = '\0';
}

/* 0..15, or -1. Computed, not looked up in a table: the digits are secret, and the address of a
 * table access leaks them through the cache. */
static int hex_value(uint8_t c)
{
    int digit = c - '0', letter = c - 'a' + 10;
    int is_digit = digit >= 0 && digit <= 9, is_letter = letter >= 10 && letter <= 15;

    return (digit & -is_digit) | (letter & -is_letter) | -!(is_digit | is_letter);
}

static bool read_key(const char *shown, char *out)
{
    const char *hex = shown + sizeof(PREFIX) - 1;
    int bad = 0;

    if (strncmp(shown, PREFIX, sizeof(PREFIX) - 1) != 0 || strlen(shown) != LEN)
        return false;
    out = stpcpy(out, ATOLL_KEY_PREFIX);
    for (size_t i = 0; i < RANDOM_LEN; i++) {
        int high = hex_value((uint8_t)hex[2 * i]), low = hex_value((uint8_t)hex[2 * i + 1]);
        bad |= high | low;
        *out++ = (char)(((unsigned)high << 4 | (unsigned)low) & 0xff);
    }
    *out = '\0';
    return bad >= 0;
}

const struct atoll_key_spelling atoll_e2b_key = {.field = "e2b_key",
                                                 .prefix = PREFIX,
                                                 .len = LEN,
                                                 .write = write_key,
                                                 .read = read_key};
