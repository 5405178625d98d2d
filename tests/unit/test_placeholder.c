/* Placeholders of secrets in header values. */
#include "network/placeholder.h"

#include <errno.h>
#include <string.h>
#include "base/defs.h"
#include "test.h"

static void test_names(void **state ATOLL_UNUSED)
{
    static const char *const good[] = {"a", "A-b_c.9", "_x", "-", "...", ".x"};
    static const char *const bad[] = {"", ".", "..", "a b", "a/b", "a}", "\xc3\xa4", "a\n"};
    char text[ATOLL_SECRET_NAME_MAX + 2];

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(good); i++)
        assert_true(atoll_secret_is_name(good[i]));
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        assert_false(atoll_secret_is_name(bad[i]));
    memset(text, 'a', sizeof(text));
    text[ATOLL_SECRET_NAME_MAX + 1] = '\0';
    assert_false(atoll_secret_is_name(text));
    text[ATOLL_SECRET_NAME_MAX] = '\0';
    assert_true(atoll_secret_is_name(text));
}

static const char *get(void *arg ATOLL_UNUSED, const char *name)
{
    return strcmp(name, "key") == 0 ? "VALUE" : strcmp(name, "Key") == 0 ? "${secret.key}" : NULL;
}

static void test_fill(void **state ATOLL_UNUSED)
{
    static const struct {
        const char *text, *filled; /* NULL: -ENOENT */
    } rows[] = {
        {"", ""},
        {"plain $ { } ${ text", "plain $ { } ${ text"},
        {"${secret.key}", "VALUE"},
        {"Bearer ${secret.key}", "Bearer VALUE"},
        {"a${secret.key}b${secret.key}c", "aVALUEbVALUEc"},
        {"${secret.key}}", "VALUE}"},
        {"$${secret.key}", "$VALUE"},
        {"${HOME} ${secret.key}", "${HOME} VALUE"},
        {"${secrets.key}", "${secrets.key}"},
        {"${e2b.secrets.KEY}", "VALUE"},
        {"${e2b.identity.tokens.key}", "${e2b.identity.tokens.key}"},
        /* A value is not searched again. */
        {"${secret.Key}", "${secret.key}"},
        {"${secret.other}", NULL},
        {"${secret.key} ${secret.other}", NULL},
        {"${secret.}", NULL},
        {"${secret.key", NULL},
        {"${secret.k y}", NULL},
        {"${secret.${secret.key}}", NULL},
    };
    struct atoll_buf out;

    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        atoll_buf_init(&out, 1000);
        assert_int_equal(atoll_placeholder_fill(rows[i].text, get, NULL, &out),
                         rows[i].filled ? 0 : -ENOENT);
        if (rows[i].filled)
            assert_string_equal(atoll_buf_str(&out), rows[i].filled);
        atoll_buf_wipe(&out);
    }
    atoll_buf_init(&out, 6);
    assert_int_equal(atoll_placeholder_fill("ab${secret.key}", get, NULL, &out), -ENOBUFS);
    atoll_buf_wipe(&out);
}

static void test_find(void **state ATOLL_UNUSED)
{
    char name[ATOLL_SECRET_NAME_MAX + 1];
    const char *text = "x ${secret.a} ${e2b.secrets.B}", *end;

    assert_ptr_equal(atoll_placeholder_find(text, &end, name), text + 2);
    assert_string_equal(name, "a");
    assert_string_equal(end, " ${e2b.secrets.B}");
    assert_ptr_equal(atoll_placeholder_find(end, &end, name), text + 14);
    assert_string_equal(name, "b");
    assert_string_equal(end, "");
    assert_null(atoll_placeholder_find(end, &end, name));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_fill),
        cmocka_unit_test(test_find),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
