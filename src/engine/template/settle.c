#include "engine/template/settle.h"

#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>
#include "engine/engine_internal.h"
#include "sandbox/stack.h"

#define SALT "directories of "

/* Whether a layer above the lowest has directories that its archive only implies. */
static bool is_needed(struct atoll_engine *engine, const char *stack)
{
    char name[ATOLL_LAYER_NAME_MAX + 1];
    const char *rest = stack;
    struct atoll_layer_facts facts;
    bool lowest = true, found = false;

    while (!found && atoll_stack_next(&rest, name)) {
        found = !lowest && atoll_layer_find(engine, name, &facts) && facts.implied > 0;
        lowest = false;
    }
    return found && atoll_stack_count(stack) < ATOLL_LAYERS_MAX;
}

/* "x" and 32 digits, as layers that are made here. */
static int name_layer(const char *stack, char out[static 34])
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    uint8_t digest[EVP_MAX_MD_SIZE];
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 &&
              EVP_DigestUpdate(ctx, SALT, strlen(SALT)) == 1 &&
              EVP_DigestUpdate(ctx, stack, strlen(stack)) == 1 &&
              EVP_DigestFinal_ex(ctx, digest, NULL) == 1;

    EVP_MD_CTX_free(ctx);
    out[0] = 'x';
    for (size_t i = 0; ok && i < 16; i++)
        (void)snprintf(out + 1 + 2 * i, 3, "%02x", digest[i]);
    return ok ? 0 : -ENOMEM;
}

void atoll_settle_stack(struct atoll_engine *engine, const char *stack, atoll_unpacked_fn *done,
                        void *arg)
{
    struct atoll_unpacked made = {.layer = "", .digest = "", .diff_id = "", .note = ""};
    struct atoll_error err;
    char layer[34];
    int r = 0;

    if (!is_needed(engine, stack)) {
        done(arg, &made, NULL);
        return;
    }
    if (name_layer(stack, layer) < 0)
        r = atoll_fail_errno(&err, ENOMEM, "image");
    else if (!atoll_layer_find(engine, layer, NULL)) {
        atoll_unpack_settle(engine, stack, layer, done, arg);
        return;
    }
    made.layer = layer;
    if (r == 0)
        r = atoll_layer_hold(engine, layer, &err);
    done(arg, r < 0 ? NULL : &made, r < 0 ? &err : NULL);
}
