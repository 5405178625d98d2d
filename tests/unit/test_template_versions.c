/*
 * Versions, tags, layers and cached steps on a real store, with a provider that only notes which
 * layers it is told to remove.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "engine/engine_internal.h"
#include "sys/tree.h"
#include "test.h"

static struct atoll_engine engine;
static struct atoll_provider_entry entry;
static char dir[40], dropped[4096];
static int dir_fd;

static void drop_layer(struct atoll_provider *p, const char *layer, atoll_provider_done_fn *done,
                       void *arg)
{
    char path[100];

    (void)p;
    (void)snprintf(dropped + strlen(dropped), sizeof(dropped) - strlen(dropped), "%s ", layer);
    (void)snprintf(path, sizeof(path), "layers/%s", layer);
    (void)unlinkat(dir_fd, path, AT_REMOVEDIR);
    done(arg, NULL);
}

static const struct atoll_provider_ops ops = {.name = "notes", .drop_layer = drop_layer};
static struct atoll_provider provider = {.ops = &ops};

static void open_engine(void)
{
    struct atoll_error err;

    memset(&engine, 0, sizeof(engine));
    engine.state_fd = dir_fd;
    engine.config.template_history = 2;
    engine.config.template_cache_max_bytes = 1000;
    entry = (struct atoll_provider_entry){.engine = &engine, .provider = &provider};
    engine.builder = &entry;
    atoll_map_init(&engine.sandboxes);
    atoll_templates_init(&engine);
    assert_int_equal(atoll_loop_new(&engine.loop, NULL), 0);
    assert_int_equal(atoll_store_open_sqlite(dir_fd, &engine.config.store, &err), 0);
    assert_int_equal(atoll_templates_load(&engine, &err), 0);
    atoll_layers_open(&engine);
}

static void close_engine(void)
{
    atoll_layers_close(&engine);
    atoll_templates_done(&engine);
    atoll_map_done(&engine.sandboxes);
    engine.config.store = atoll_store_close(engine.config.store);
    engine.loop = atoll_loop_free(engine.loop);
}

static int set_up(void **state)
{
    (void)state;
    (void)snprintf(dir, sizeof(dir), "/tmp/atoll-versions-XXXXXX");
    assert_non_null(mkdtemp(dir));
    dir_fd = open(dir, O_RDONLY | O_DIRECTORY);
    assert_int_equal(mkdirat(dir_fd, "layers", 0700), 0);
    dropped[0] = '\0';
    open_engine();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    close_engine();
    (void)close(dir_fd);
    assert_int_equal(atoll_tree_remove(AT_FDCWD, dir), 0);
    return 0;
}

/* Runs what is due, the collector above all. */
static void wait_a_bit(void)
{
    struct atoll_error err;

    for (int i = 0; i < 5; i++)
        assert_true(atoll_loop_step(engine.loop, 10, &err) >= 0);
}

/* A layer on the disk that is held once. */
static const char *layer(const char *name, uint64_t size)
{
    struct atoll_error err;
    char path[100];

    assert_int_equal(atoll_layer_hold(&engine, name, &err), 0);
    (void)snprintf(path, sizeof(path), "layers/%s", name);
    assert_int_equal(mkdirat(dir_fd, path, 0700), 0);
    assert_int_equal(atoll_layer_put(&engine,
                                     &(struct atoll_layer_facts){.name = name, .size_bytes = size},
                                     &err),
                     0);
    return name;
}

static struct atoll_template_view add(const char *owner, const char *name, const char *tags,
                                      const char *layers)
{
    struct atoll_template_view view;
    struct atoll_error err;
    int r = atoll_version_add(&engine,
                              &(struct atoll_version_new){.owner = owner,
                                                          .name = name,
                                                          .tags = tags,
                                                          .layers = layers,
                                                          .config_json = "{\"Env\":[]}",
                                                          .source = "dockerfile",
                                                          .definition = "FROM x"},
                              &view, &err);

    if (r < 0)
        print_error("%s\n", err.text);
    assert_int_equal(r, 0);
    return view;
}

static void resolves(const char *tenant, const char *reference, const char *layers)
{
    struct atoll_template_view view;
    struct atoll_error err;
    int r = atoll_template_resolve(&engine, tenant, reference, &view, &err);

    if (layers) {
        assert_int_equal(r, 0);
        assert_string_equal(view.layers, layers);
    } else {
        assert_true(r < 0 && err.kind == ATOLL_ERR_NOT_FOUND);
    }
}

static void names(void **state)
{
    static const struct {
        const char *text, *name, *tag, *digest; /* name NULL: refused */
    } rows[] = {
        {"a", "a", "", ""},
        {"a:b", "a", "b", ""},
        {"a:B.1_-", "a", "B.1_-", ""},
        {"a@sha256:0123456789ab", "a", "", "0123456789ab"},
        {"a:b@sha256:0123456789ab", "a", "b", "0123456789ab"},
        {"acme/a:b", "acme/a", "b", ""},
        {"localhost:5000/x/y", "localhost:5000/x/y", "", ""},
        {"localhost:5000/x/y:z", "localhost:5000/x/y", "z", ""},
        {"docker.io/library/alpine:3.20", "docker.io/library/alpine", "3.20", ""},
        {"", NULL, "", ""},
        {"a:", NULL, "", ""},
        {":a", NULL, "", ""},
        {"a:-b", NULL, "", ""},
        {"a@sha256:xyz", NULL, "", ""},
        {"a@sha256:0123456789a", NULL, "", ""},
        {"a//b", NULL, "", ""},
        {"../a", NULL, "", ""},
        {"a/..", NULL, "", ""},
        {"/a", NULL, "", ""},
        {"a b", NULL, "", ""},
        {"a/b/", NULL, "", ""},
    };
    struct atoll_template_reference ref;
    struct atoll_error err;

    (void)state;
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(rows); i++) {
        int r = atoll_template_reference_parse(rows[i].text, &ref, &err);

        if ((r == 0) != (rows[i].name != NULL))
            fail_msg("\"%s\"", rows[i].text);
        if (r < 0)
            continue;
        assert_string_equal(ref.name, rows[i].name);
        assert_string_equal(ref.tag, rows[i].tag);
        assert_string_equal(ref.digest, rows[i].digest);
    }
}

static void layers_are_counted(void **state)
{
    struct atoll_error err;

    (void)state;
    (void)layer("a", 1);
    assert_int_equal(atoll_layers_hold(&engine, "a b a", &err), 0);
    atoll_layers_release(&engine, "a b a");
    assert_string_equal(dropped, "b "); /* it was never made */
    assert_true(atoll_layer_find(&engine, "a", NULL));
    atoll_layer_release(&engine, "a");
    assert_string_equal(dropped, "b a ");
    assert_false(atoll_layer_find(&engine, "a", NULL));
    assert_int_equal(atoll_templates_usage(&engine).layers, 0);
    assert_true(atoll_layers_hold(&engine, "x ../y", &err) < 0);
}

static void history(void **state)
{
    char name[34];

    (void)state;
    for (int i = 0; i < 6; i++) {
        (void)snprintf(name, sizeof(name), "n%d", i);
        (void)layer(name, 10);
        (void)add("", "app", i == 1 ? "latest keep" : NULL, name);
        atoll_layer_release(&engine, name);
    }
    assert_string_equal(dropped, "");
    wait_a_bit();
    /* n5 is latest, n1 has a tag, and two of the others stay. */
    assert_string_equal(dropped, "n2 n0 ");
    resolves("default", "app", "n5");
    resolves("default", "app:keep", "n1");
    (void)atoll_templates_collect(&engine, NULL, false);
    assert_int_equal(atoll_templates_usage(&engine).versions, 3); /* and host */
    close_engine();
    open_engine();
    resolves("default", "app:keep", "n1");
    assert_int_equal(atoll_templates_usage(&engine).layer_bytes, 20);
}

static void the_same_again(void **state)
{
    char id[ATOLL_VERSION_ID_LEN + 1];

    (void)state;
    (void)layer("a", 1);
    (void)snprintf(id, sizeof(id), "%s", add("acme", "app", NULL, "a").id);
    assert_string_equal(add("acme", "app", "v2", "a").id, id);
    assert_string_not_equal(add("acme", "other", NULL, "a").id, id);
    resolves("acme", "app:v2", "a");
    resolves("rival", "app", NULL);
    resolves("rival", "acme/app", NULL);
    atoll_layer_release(&engine, "a");
    assert_string_equal(dropped, "");
}

static void bad_versions(void **state)
{
    const struct atoll_version_new good = {.name = "x", .layers = "a", .source = "steps"};
    struct atoll_version_new bad[10];
    struct atoll_template_view view;
    struct atoll_error err;

    (void)state;
    (void)layer("a", 1);
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        bad[i] = good;
    bad[0].name = "a/b";
    bad[1].name = "host";
    bad[2].tags = "a -b";
    bad[3].layers = "a missing";
    bad[4].layers = "";
    bad[5].config_json = "[]";
    bad[6].digest = "abc";
    bad[7].source = NULL;
    bad[8].config_json = "{";
    bad[9].id = "short";
    for (size_t i = 0; i < ATOLL_ARRAY_LEN(bad); i++)
        assert_true(atoll_version_add(&engine, &bad[i], &view, &err) < 0);
    assert_int_equal(atoll_templates_usage(&engine).versions, 1);
    atoll_layer_release(&engine, "a");
    assert_string_equal(dropped, "a ");
}

static void put_step(const char *tenant, const char *key, const char *layers)
{
    struct atoll_error err;

    assert_int_equal(
        atoll_steps_put(&engine, tenant, key, &(struct atoll_cached_step){layers, "{}"}, &err), 0);
    atoll_layers_release(&engine, layers);
}

static void cached_steps(void **state)
{
    struct atoll_cached_step step;

    (void)state;
    put_step("acme", "k1", layer("a", 600));
    put_step("acme", "k2", layer("b", 300));
    assert_false(atoll_steps_get(&engine, "rival", "k1", &step));
    assert_true(atoll_steps_get(&engine, "acme", "k1", &step)); /* now k2 is the oldest */
    assert_string_equal(step.layers, "a");
    assert_string_equal(step.config, "{}");
    assert_int_equal(atoll_templates_usage(&engine).step_bytes, 900);
    put_step("acme", "k3", layer("c", 200));
    wait_a_bit();
    assert_string_equal(dropped, "b ");
    assert_false(atoll_steps_get(&engine, "acme", "k2", &step));
    /* What a version uses does not count, and removing it would free nothing. */
    (void)add("acme", "app", NULL, "a");
    assert_int_equal(atoll_templates_usage(&engine).step_bytes, 200);
    put_step("acme", "k4", layer("d", 900));
    wait_a_bit();
    assert_string_equal(dropped, "b c ");
    assert_true(atoll_steps_get(&engine, "acme", "k1", &step));
    close_engine();
    open_engine();
    assert_string_equal(dropped, "b c ");
    assert_true(atoll_steps_get(&engine, "acme", "k1", &step));
    assert_int_equal(atoll_templates_usage(&engine).step_bytes, 900);
    assert_int_equal(atoll_steps_drop(&engine, "rival", NULL), 0);
    assert_int_equal(atoll_steps_drop(&engine, "acme", NULL), 2);
    assert_string_equal(dropped, "b c d ");
}

static void a_step_whose_layer_is_gone(void **state)
{
    struct atoll_cached_step step;

    (void)state;
    put_step("acme", "k", layer("a", 1));
    close_engine();
    assert_int_equal(unlinkat(dir_fd, "layers/a", AT_REMOVEDIR), 0);
    open_engine();
    assert_false(atoll_steps_get(&engine, "acme", "k", &step));
    assert_int_equal(atoll_templates_usage(&engine).steps, 0);
}

/* A layer that a dead daemon had not yet given to a version. */
static void leftovers(void **state)
{
    struct atoll_error err;
    int fd;

    (void)state;
    (void)layer("used", 1);
    (void)add("", "app", NULL, "used");
    (void)layer("left", 1);
    fd = atoll_version_file(&engine, add("", "app", NULL, "used").id, "log", O_CREAT | O_WRONLY,
                            &err);
    assert_true(fd >= 0);
    (void)close(fd);
    close_engine();
    open_engine();
    assert_string_equal(dropped, "left ");
    assert_int_equal(faccessat(dir_fd, "layers/used", F_OK, 0), 0);
    atoll_templates_remove(&engine, "", "app", atoll_done_ignore, NULL);
    assert_string_equal(dropped, "left used ");
    close_engine();
    assert_int_equal(unlinkat(dir_fd, "versions", AT_REMOVEDIR), 0); /* the log went, too */
    open_engine();
}

/* The first template of the list of all that are not built in, or "". */
static const char *listed(void)
{
    static struct atoll_template_view view;

    for (size_t pos = 0; atoll_templates_next(&engine, &pos, &view);)
        if (view.kind != ATOLL_TEMPLATE_HOST)
            return view.name;
    return "";
}

static void count_done(void *arg, const struct atoll_error *error)
{
    assert_null(error);
    ++*(int *)arg;
}

static void retired(void **state)
{
    struct atoll_template_view view;
    struct atoll_version *used;
    struct atoll_error err;
    char id[ATOLL_VERSION_ID_LEN + 1], reference[100];
    int done = 0;

    (void)state;
    (void)layer("old", 1);
    view = add("acme", "app", "latest first", "old");
    memcpy(id, view.id, sizeof(id));
    (void)snprintf(reference, sizeof(reference), "app@sha256:%s", view.digest);
    (void)layer("new", 1);
    (void)add("acme", "app", NULL, "new");
    used = atoll_map_get(&engine.template_tables.versions, id);
    used->pins++;
    atoll_layer_release(&engine, "old");
    atoll_layer_release(&engine, "new");
    atoll_templates_retire(&engine, "acme", "app", count_done, &done);
    assert_int_equal(done, 1);
    wait_a_bit();
    assert_string_equal(dropped, "new "); /* which is not used */
    assert_string_equal(listed(), "");
    resolves("acme", "app", NULL);
    resolves("acme", "app:first", NULL);
    resolves("acme", reference, NULL);
    assert_int_equal(atoll_version_find(&engine, id, &view, &err), 0);
    assert_true(strncmp(view.name, "app~", 4) == 0 && atoll_template_is_retired(view.name));
    assert_int_equal(atoll_template_resolve(&engine, "acme", view.name, &view, &err), -EINVAL);

    /* The name is free, and what has it now is another template. */
    (void)layer("other", 1);
    (void)add("acme", "app", NULL, "other");
    resolves("acme", "app", "other");
    used->pins--;
    close_engine();
    open_engine();
    assert_int_equal(atoll_version_find(&engine, id, &view, &err), 0);
    resolves("acme", "app", "other");
    atoll_templates_collect_soon(&engine);
    wait_a_bit();
    assert_true(atoll_version_find(&engine, id, &view, &err) < 0);
    assert_string_equal(dropped, "new old ");
    assert_string_equal(listed(), "app");

    /* If nothing uses it, it is removed before done is called. */
    atoll_templates_retire(&engine, "acme", "app", count_done, &done);
    assert_int_equal(done, 2);
    assert_string_equal(dropped, "new old other ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(names, set_up, tear_down),
        cmocka_unit_test_setup_teardown(layers_are_counted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(history, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_same_again, set_up, tear_down),
        cmocka_unit_test_setup_teardown(bad_versions, set_up, tear_down),
        cmocka_unit_test_setup_teardown(cached_steps, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_step_whose_layer_is_gone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(leftovers, set_up, tear_down),
        cmocka_unit_test_setup_teardown(retired, set_up, tear_down),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
