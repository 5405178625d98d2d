/* Copies of the options of a sandbox share nothing with the original. */
#include <string.h>
#include "engine/engine_internal.h"
#include "test.h"

static void a_copy_is_independent(void **state)
{
    char name[] = "team", variable[] = "A=1";
    const char *env[] = {variable, "B=2", NULL};
    const char *const artifacts[] = {"out/**", NULL};
    struct atoll_mount mounts[2] = {{.volume = "one", .path = "/one"},
                                    {.volume = "two", .path = "/two", .read_only = true}};
    struct atoll_registry_login login = {.username = "me", .password = "secret"};
    const struct atoll_options original = {.limits.pids = 7,
                                           .lifetime.idle_s = 8,
                                           .recreate = true,
                                           .owner = name,
                                           .metadata_json = "{}",
                                           .env = env,
                                           .artifacts = artifacts,
                                           .mounts = mounts,
                                           .mount_count = 2,
                                           .login = &login};
    struct atoll_options copy, second;
    struct atoll_error err;

    (void)state;
    assert_int_equal(atoll_options_dup(&copy, &original, &err), 0);
    memset(name, 'x', sizeof(name) - 1);
    memset(variable, 'x', sizeof(variable) - 1);
    memset(mounts, 'x', sizeof(mounts));
    memset(&login, 'x', sizeof(login));
    assert_int_equal(atoll_options_dup(&second, &copy, &err), 0);
    atoll_options_free(&copy);
    assert_null(copy.env);
    assert_int_equal(second.limits.pids, 7);
    assert_int_equal(second.lifetime.idle_s, 8);
    assert_true(second.recreate);
    assert_string_equal(second.owner, "team");
    assert_string_equal(second.metadata_json, "{}");
    assert_null(second.facade_json);
    assert_string_equal(second.env[0], "A=1");
    assert_string_equal(second.env[1], "B=2");
    assert_null(second.env[2]);
    assert_string_equal(second.artifacts[0], "out/**");
    assert_int_equal(second.mount_count, 2);
    assert_string_equal(second.mounts[1].path, "/two");
    assert_string_equal(second.login->password, "secret");
    atoll_options_end_create(&second);
    assert_null(second.login);
    atoll_options_free(&second);
}

/* Only pointers may follow this list; a member that is missing in the table of options.c would be
 * shared between copies. */
static void every_pointer_is_copied(void **state)
{
    const char *const strings[] = {"s", NULL};
    const struct atoll_mount mount = {.path = "/m"};
    const struct atoll_registry_login login = {.username = "me"};
    struct atoll_options full, copy;
    const char *texts[sizeof(full) / sizeof(char *)], *copied[sizeof(full) / sizeof(char *)];
    struct atoll_error err;

    (void)state;
    full = (struct atoll_options){.owner = "owner",
                                  .template_name = "template",
                                  .image = "image",
                                  .provider = "provider",
                                  .isolation = "isolation",
                                  .language = "language",
                                  .interpreter = "interpreter",
                                  .session_id = "session",
                                  .network_json = "{}",
                                  .metadata_json = "{}",
                                  .facade_json = "{}",
                                  .env = strings,
                                  .artifacts = strings,
                                  .mounts = &mount,
                                  .mount_count = 1,
                                  .login = &login};
    assert_int_equal(atoll_options_dup(&copy, &full, &err), 0);
    memcpy(texts, &full, sizeof(texts));
    memcpy(copied, &copy, sizeof(copied));
    for (size_t i = offsetof(struct atoll_options, owner) / sizeof(char *);
         i < offsetof(struct atoll_options, progress) / sizeof(char *); i++)
        /* A flag has padding, which is not copied and may look like a pointer. */
        if (i != offsetof(struct atoll_options, env_is_common) / sizeof(char *) &&
            i != offsetof(struct atoll_options, without_start) / sizeof(char *) &&
            (uintptr_t)texts[i] > UINT16_MAX) /* not a number */
            assert_ptr_not_equal(texts[i], copied[i]);
    atoll_options_free(&copy);
}

static void the_size_counts_all_texts(void **state)
{
    const char *const env[] = {"A=1", "BB=2", NULL};
    const struct atoll_options options = {.owner = "team", .env = env};

    (void)state;
    assert_int_equal(atoll_options_size(&(struct atoll_options){0}), 0);
    assert_int_equal(atoll_options_size(&options), 5 + 4 + 5 + 2 * sizeof(char *));
}

static void a_default_names_nothing(void **state)
{
    (void)state;
    assert_false(atoll_options_name_root(&(struct atoll_options){0}));
    assert_false(atoll_options_name_root(&(struct atoll_options){.template_name = "host"}));
    assert_true(atoll_options_name_root(&(struct atoll_options){.template_name = "python"}));
    assert_true(atoll_options_name_root(&(struct atoll_options){.image = "debian:12"}));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_is_independent),
        cmocka_unit_test(every_pointer_is_copied),
        cmocka_unit_test(the_size_counts_all_texts),
        cmocka_unit_test(a_default_names_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
