#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "engine/build/build_internal.h"
#include "engine/json_memory.h"

/*
 * Keys of steps. Two steps have the same key if the layers below, the instruction with its variables
 * replaced and what it copies are the same. The version is a fact too: a builder that does something else
 * for the same instruction has another one.
 */
#define BUILDER_VERSION 1

void atoll_make_key(const json_t *facts, char out[static 65])
{
    json_t *all = json_pack("{s:i, s:O}", "builder", BUILDER_VERSION, "facts", facts);
    char *text = all ? atoll_json_dump(all, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned n = 0;

    if (!text || EVP_Digest(text, strlen(text), digest, &n, EVP_sha256(), NULL) != 1)
        abort();
    for (unsigned i = 0; i < 32; i++)
        (void)snprintf(out + (size_t)2 * i, 3, "%02x", digest[i]);
    free(text);
    json_decref(all);
}
