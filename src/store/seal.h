#pragma once
#include "base/buf.h"
#include "base/error.h"

/*
 * Encryption at rest (docs/adr/0027-secrets-at-rest.md). A sealed value is encrypted and authenticated
 * with AES-256-GCM and a key that is kept in the file secret.key of the state directory. It is bound to
 * its place: a value that was copied to another row, file or owner cannot be read there.
 *
 * Form: 0, 'A', 'S', version 1, 8 bytes that name the key, 24 random bytes, the encrypted bytes, and 16
 * bytes of the tag. The first byte keeps it apart from texts. Half of the random bytes make a key of its
 * own for the value, by HMAC-SHA-256; the other half is the nonce.
 *
 * Blocking: files only in atoll_seal_load() and atoll_seal_make(). Thread: a seal may be used by one
 * thread at a time.
 */
struct atoll_seal;

#define ATOLL_SEAL_KEY_FILE "secret.key"
#define ATOLL_SEAL_HEAD_BYTES 12  /* those that are equal in all values of one key */
#define ATOLL_SEAL_EXTRA_BYTES 52 /* a sealed value is this much longer than the plain one */

/* Where a value belongs, such as "sandbox environment" and the id of the sandbox. */
struct atoll_seal_place {
    const char *purpose, *owner;
};

/* Reads the key file, and takes its permissions away from other users. NOT_FOUND: the file does not exist.
 * DATA_LOSS: it is damaged. */
int atoll_seal_load(int dir_fd, struct atoll_seal **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Makes a key and its file, which is on the disk when the call returns. ALREADY_EXISTS. */
int atoll_seal_make(int dir_fd, struct atoll_seal **ret, struct atoll_error *err) ATOLL_MUST_CHECK;
/* Erases the key from memory. */
struct atoll_seal *atoll_seal_free(struct atoll_seal *seal);

/* The bytes with which every value of this key begins. */
const uint8_t *atoll_seal_head(const struct atoll_seal *seal);
/* Whether the bytes have the form of a sealed value, of any version and key. */
bool atoll_seal_is_sealed(const void *bytes, size_t n);

/* Appends the sealed form of n bytes. RESOURCE_EXHAUSTED: out is full. */
int atoll_seal_write(const struct atoll_seal *seal, const struct atoll_seal_place *place,
                     const void *plain, size_t n, struct atoll_buf *out,
                     struct atoll_error *err) ATOLL_MUST_CHECK;
/* Appends the plain bytes; the caller erases them with atoll_buf_wipe(). DATA_LOSS: the value was
 * changed, was sealed for another place, or with another key. RESOURCE_EXHAUSTED: out is full. */
int atoll_seal_read(const struct atoll_seal *seal, const struct atoll_seal_place *place,
                    const void *sealed, size_t n, struct atoll_buf *out,
                    struct atoll_error *err) ATOLL_MUST_CHECK;
