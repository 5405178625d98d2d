#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "engine/template/versions.h"

/*
 * Names of templates and versions, and lists of words.
 */

#define SHORT_DIGEST 12

static bool is_hex(const char *text)
{
    return text[strspn(text, "0123456789abcdef")] == '\0';
}

bool atoll_tag_is_name(const char *text)
{
    size_t n = strlen(text);

    return n > 0 && n <= ATOLL_TEMPLATE_TAG_MAX && text[0] != '.' && text[0] != '-' &&
           strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

bool atoll_template_is_image_name(const char *text)
{
    static const char letters[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const char *p = text;

    if (strlen(text) > ATOLL_TEMPLATE_NAME_MAX)
        return false;
    for (;;) {
        size_t n = strspn(p, letters);

        if (n == 0 || !isalnum((unsigned char)*p) || !isalnum((unsigned char)p[n - 1]))
            return false;
        p += n;
        if (*p == ':' && strchr(text, '/') > p) /* the port of the first component */
            p += 1 + strspn(p + 1, "0123456789");
        if (*p == '\0')
            return true;
        if (*p++ != '/')
            return false;
    }
}

/* Cuts "@sha256:HEX" off. */
static int take_digest(char *name, struct atoll_template_reference *ret, struct atoll_error *err)
{
    char *at = strchr(name, '@');
    const char *hex;
    size_t n;

    if (!at)
        return 0;
    hex = strncmp(at + 1, "sha256:", 7) == 0 ? at + 8 : at + 1;
    n = strlen(hex);
    *at = '\0';
    if (n < SHORT_DIGEST || n > ATOLL_DIGEST_LEN || !is_hex(hex))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a digest is sha256: and %d to %d hex digits", SHORT_DIGEST,
                          ATOLL_DIGEST_LEN);
    memcpy(ret->digest, hex, n + 1);
    return 0;
}

static int take_tag(char *name, struct atoll_template_reference *ret, struct atoll_error *err)
{
    char *colon = strrchr(name, ':');

    if (!colon || strchr(colon, '/'))
        return 0;
    *colon = '\0';
    if (!atoll_tag_is_name(colon + 1))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "a tag is 1 to %d letters, digits, dots, dashes or underscores",
                          ATOLL_TEMPLATE_TAG_MAX);
    (void)snprintf(ret->tag, sizeof(ret->tag), "%s", colon + 1);
    return 0;
}

int atoll_template_reference_parse(const char *text, struct atoll_template_reference *ret,
                                   struct atoll_error *err)
{
    char copy[ATOLL_TEMPLATE_NAME_MAX + ATOLL_TEMPLATE_TAG_MAX + ATOLL_DIGEST_LEN + 16];
    int r;

    *ret = (struct atoll_template_reference){{0}, {0}, {0}};
    if (atoll_text_copy(copy, sizeof(copy), text) < 0)
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                          "the name of the template is too long");
    r = take_digest(copy, ret, err);
    if (r == 0)
        r = take_tag(copy, ret, err);
    if (r < 0)
        return r;
    if (!atoll_template_is_image_name(copy) && !atoll_text_is_name(copy))
        return atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, EINVAL,
                          "\"%.80s\" is not the name of a template: NAME, NAME:TAG or "
                          "NAME@sha256:DIGEST",
                          text);
    return atoll_text_copy(ret->name, sizeof(ret->name), copy) < 0
               ? atoll_fail(err, ATOLL_ERR_INVALID_ARGUMENT, ENAMETOOLONG,
                            "the name of the template is too long")
               : 0;
}

bool atoll_template_is_reference(const char *text)
{
    struct atoll_template_reference ref;
    struct atoll_error ignored;

    return atoll_template_reference_parse(text, &ref, &ignored) == 0;
}

void atoll_words_each(const char *words, void (*fn)(void *arg, const char *word), void *arg)
{
    char word[ATOLL_TEMPLATE_TAG_MAX + 1];

    while (*words) {
        size_t n = strcspn(words, " ");

        (void)snprintf(word, sizeof(word), "%.*s", (int)ATOLL_MIN(n, sizeof(word) - 1), words);
        if (n > 0)
            fn(arg, word);
        words += n + (words[n] == ' ');
    }
}

bool atoll_words_have(const char *words, const char *word)
{
    size_t len = strlen(word);

    while (*words) {
        size_t n = strcspn(words, " ");

        if (n == len && memcmp(words, word, n) == 0)
            return true;
        words += n + (words[n] == ' ');
    }
    return false;
}
