/*
 * The head of a file of the cache: a line of JSON, filled up with blanks.
 */
#include <stdio.h>
#include <string.h>
#include "egress/cache_internal.h"

#define VERSION 1

static json_t *fields_json(const struct atoll_buf *fields)
{
    const char *at = (const char *)atoll_buf_head(fields);
    const char *end = at ? at + atoll_buf_size(fields) : NULL;
    json_t *list = json_array();

    while (at < end) {
        const char *value = at + strlen(at) + 1;

        (void)json_array_append_new(list, json_pack("[s, s]", at, value));
        at = value + strlen(value) + 1;
    }
    return list;
}

static void print_hex(const uint8_t *bytes, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", bytes[i]);
}

bool atoll_cache_head_print(const char *url, const struct atoll_buf *fields, uint64_t size,
                            const uint8_t sha256[ATOLL_CACHE_DIGEST_BYTES],
                            char out[CACHE_HEAD_BYTES])
{
    char hex[2 * ATOLL_CACHE_DIGEST_BYTES + 1];
    json_t *json;
    size_t n;

    print_hex(sha256, ATOLL_CACHE_DIGEST_BYTES, hex);
    json = json_pack("{s:i, s:s, s:I, s:s, s:o}", "version", VERSION, "url", url, "size",
                     (json_int_t)size, "sha256", hex, "fields", fields_json(fields));
    n = json ? json_dumpb(json, out, CACHE_HEAD_BYTES, JSON_COMPACT) : 0;
    json_decref(json);
    if (n == 0 || n >= CACHE_HEAD_BYTES)
        return false;
    memset(out + n, ' ', CACHE_HEAD_BYTES - n);
    out[CACHE_HEAD_BYTES - 1] = '\n';
    return true;
}

bool atoll_cache_head_parse(const char bytes[CACHE_HEAD_BYTES], struct atoll_cache_stored *ret)
{
    json_int_t size = -1;
    const char *hex = "";
    int version = 0;

    ret->json = json_loadb(bytes, CACHE_HEAD_BYTES, 0, NULL);
    if (ret->json &&
        json_unpack(ret->json, "{s:i, s:s, s:I, s:s}", "version", &version, "url", &ret->url,
                    "size", &size, "sha256", &hex) == 0 &&
        version == VERSION && size >= 0 &&
        atoll_cache_digest_parse(hex, strlen(hex), ret->sha256)) {
        ret->size = (uint64_t)size;
        return true;
    }
    json_decref(ret->json);
    ret->json = NULL;
    return false;
}
