#pragma once
#include "engine/engine.h"

/*
 * Makes a layer from an archive (tar; plain, gzip, zstd or xz). The program atoll-unpack runs in a builder
 * sandbox of the host template, and the tree that it writes becomes the layer. So a hostile archive can do
 * no more than any program in a sandbox; the daemon does not parse it.
 *
 * Tenants share layers. So the name of a layer does not depend on what the sandbox reports, but on bytes
 * that the daemon has seen: it is the SHA-256 of the archive as it came (of an image: the digest of the
 * compressed blob), or a random name. The digest of the uncompressed archive (the diff id of OCI) is a fact
 * of the layer, and not its name.
 *
 * At most ATOLL_UNPACKS archives are unpacked at a time; others wait. If the daemon dies, the sandbox goes
 * with the next one, and no layer exists.
 *
 * Thread: the loop's. Ownership: the caller owns struct atoll_unpack until finish or drop.
 */
#define ATOLL_UNPACKS 4
/* The maximal size of a layer on disk and number of its entries, if a request gives none. */
#define ATOLL_UNPACK_BYTES (UINT64_C(32) << 30)
#define ATOLL_UNPACK_FILES 4000000
/* Uncompressed bytes for each byte of an archive, beyond the first 16 MiB. Zeros that are compressed with gzip
 * have a thousand; real layers have ten at most. */
#define ATOLL_UNPACK_RATIO 500

struct atoll_unpack;

struct atoll_unpack_request {
    /* The layer's name; NULL: the SHA-256 of `salt` and the archive, or "x" and 32 random digits if
     * `random` is set. Copied. */
    const char *layer;
    const char
        *salt; /* for trees that are not what the archive says, see `script`; or NULL. Static */
    bool random;
    /* In hex: the SHA-256 that the uncompressed archive must have (DATA_LOSS otherwise); NULL: any.
     * Copied. */
    const char *diff_id;
    bool plain;    /* names such as .wh.X have no special meaning: a context of a build */
    bool manifest; /* the result has a line for each entry, see the manual of atoll-unpack */
    const char
        *script; /* a shell script that is run in the tree, as root, before it is kept; or NULL.
                           Static */
    uint64_t max_bytes, max_files; /* 0: the defaults */
    /* atoll_unpack_file(): the part of the file that is the archive; length 0: all of it. */
    uint64_t offset, length;
};

/* Borrowed; valid during the callback. */
struct atoll_unpacked {
    const char *layer;     /* its name. It exists and is held: atoll_layer_release() it. "": none */
    const char *digest;    /* of the archive as it came, hex; "" if it was a file */
    const char *diff_id;   /* of the uncompressed archive, hex */
    uint64_t bytes, files; /* of the tree */
    uint64_t skipped;      /* entries that were left out: device nodes */
    const char *note;      /* the first remark, for logs; or "" */
    const uint8_t *manifest; /* NULL without request.manifest */
    size_t manifest_len;
};

typedef void atoll_unpack_fn(void *arg, struct atoll_unpack *unpack,
                             const struct atoll_error *error);
typedef void atoll_unpacked_fn(void *arg, const struct atoll_unpacked *made,
                               const struct atoll_error *error);

/* A stream: `ready` is called once, with an error or with what the archive can be written to. */
void atoll_unpack_open(struct atoll_engine *engine, const struct atoll_unpack_request *request,
                       atoll_unpack_fn *ready, void *arg);
/* The next bytes of the archive; done is called when more can be written. After an error, drop it. */
void atoll_unpack_write(struct atoll_unpack *unpack, const uint8_t *bytes, size_t n,
                        atoll_done_fn *done, void *arg);
/* End of the archive; frees `unpack`. INVALID_ARGUMENT: the archive is malformed or hostile.
 * RESOURCE_EXHAUSTED: it is larger than permitted. DATA_LOSS: not the expected diff id. */
void atoll_unpack_finish(struct atoll_unpack *unpack, atoll_unpacked_fn *done, void *arg);
/* Not after finish. Accepts NULL. No callback is called any more. */
void atoll_unpack_drop(struct atoll_unpack *unpack);

/* The whole archive from a file, whose descriptor is taken. request->layer must be given. Requests for the
 * same layer share one unpack; an existing layer is not unpacked again. */
void atoll_unpack_file(struct atoll_engine *engine, const struct atoll_unpack_request *request,
                       int fd, atoll_unpacked_fn *done, void *arg);

/* Makes the layer that the stack needs on top (engine/template/settle.h). If it needs none, the layer of
 * the result is "". The caller holds the layers of the stack. */
void atoll_unpack_settle(struct atoll_engine *engine, const char *stack, const char *layer,
                         atoll_unpacked_fn *done, void *arg);

/* Makes one layer of several (unpack/squash.h), with a new name. They are names of layers, bottom first, which the
 * caller holds; if they have no entries, the layer of the result is "". */
void atoll_unpack_squash(struct atoll_engine *engine, const char *layers, uint64_t max_bytes,
                         atoll_unpacked_fn *done, void *arg);

/* Frees what is in progress without callbacks, when the engine is freed. */
void atoll_unpacks_done(struct atoll_engine *engine);
void atoll_unpack_files_done(struct atoll_engine *engine); /* a part of it */
