from __future__ import annotations

import json
import socket
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from cli.connection import resolve_connection
from core.clock import utc_now
from core.errors import Conflict, Misconfigured
from core.ids import KeyId, TenantId
from core.settings import EngineSettings, Settings
from embedded.components import PACKAGE_ROOT, find_valkey_binary, settings_environment
from embedded.credentials import Credentials, credentials_path, find_credentials, save_credentials
from embedded.home import find_free_port, make_home, only_one, prepare_database, require_free_port
from storage.database import Database
from tenancy.keys import authenticate, revoke_key

SAVED = Credentials(url="http://127.0.0.1:8410", key="ll_saved", tenant_id="ten_1")


def settings_in(home: Path, **fields: object) -> Settings:
    return Settings(home=home, **fields)  # type: ignore[arg-type]


def test_credentials_are_for_their_owner_only_and_come_back(tmp_path: Path) -> None:
    save_credentials(SAVED, tmp_path)
    assert stat.S_IMODE(credentials_path(tmp_path).stat().st_mode) == 0o600
    assert find_credentials(tmp_path) == SAVED
    assert [path.name for path in tmp_path.iterdir()] == ["credentials.json"]


def test_no_credentials_are_none_and_broken_ones_are_named(tmp_path: Path) -> None:
    assert find_credentials(tmp_path) is None
    credentials_path(tmp_path).write_text("{}")
    with pytest.raises(Misconfigured, match=r"credentials\.json cannot be read"):
        find_credentials(tmp_path)


def test_the_saved_key_goes_to_the_server_it_was_saved_for_only(tmp_path: Path) -> None:
    save_credentials(SAVED, tmp_path)
    settings = settings_in(tmp_path)
    assert resolve_connection(settings).key == "ll_saved"
    assert resolve_connection(settings, url="http://127.0.0.1:8410/").key == "ll_saved"
    with pytest.raises(Misconfigured, match=r"no API key for http://elsewhere:80"):
        resolve_connection(settings, url="http://elsewhere:80")
    assert resolve_connection(settings, url="http://elsewhere:80", key="ll_given").key == "ll_given"


def test_options_beat_settings_and_settings_beat_what_was_saved(tmp_path: Path) -> None:
    save_credentials(SAVED, tmp_path)
    settings = settings_in(tmp_path, client_url="http://set:1", client_key="ll_set")
    assert (resolve_connection(settings).url, resolve_connection(settings).key) == ("http://set:1", "ll_set")
    given = resolve_connection(settings, url="http://given:2", key="ll_given")
    assert (given.url, given.key) == ("http://given:2", "ll_given")


def test_a_second_holder_of_a_data_folder_hears_who_holds_it(tmp_path: Path) -> None:
    make_home(settings_in(tmp_path))
    code = (
        "import sys, pathlib\n"
        "from embedded.home import only_one\n"
        "with only_one(pathlib.Path(sys.argv[1])):\n"
        "    print('held', flush=True); sys.stdin.read()\n"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=PACKAGE_ROOT,
    )
    assert holder.stdin is not None
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(Conflict, match=rf"already runs on .*\(process {holder.pid}\)"), only_one(tmp_path):
        pass
    holder.kill()
    holder.communicate()
    with only_one(tmp_path):  # the lock of a killed process does not stay
        pass


def test_a_port_in_use_is_named_with_the_setting_that_changes_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(Misconfigured, match=rf"Port {port} .*in use.*LONGLEAF_API_PORT"):
            require_free_port("127.0.0.1", port, variable="LONGLEAF_API_PORT")
        assert find_free_port("127.0.0.1", preferred=port) != port
    assert find_free_port("127.0.0.1", preferred=port) == port


def test_a_data_folder_too_deep_for_a_socket_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="too long for a unix socket"):
        make_home(settings_in(tmp_path / ("深" * 30)))


def test_a_data_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="cannot be used"):
        make_home(settings_in(tmp_path / "file" / "home"))


def test_the_first_start_issues_a_key_and_later_ones_keep_it(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    make_home(settings)
    first, is_new = prepare_database(settings)
    assert is_new
    assert prepare_database(settings) == (first, False)
    assert find_credentials(tmp_path) == first


def test_a_revoked_or_unknown_saved_key_is_replaced(tmp_path: Path) -> None:
    settings = settings_in(tmp_path)
    make_home(settings)
    first, _ = prepare_database(settings)
    database = Database(settings.resolved_database_url)
    with database.write() as session:
        principal = authenticate(session, first.key, now=utc_now())
        revoke_key(session, TenantId(first.tenant_id), KeyId(principal.key_id), now=utc_now())
    second, is_new = prepare_database(settings)
    assert is_new
    assert second.key != first.key
    (tmp_path / "longleaf.db").unlink()
    database.dispose()
    third, is_new = prepare_database(settings)
    assert is_new
    assert third.key != second.key


def test_a_child_reads_exactly_the_settings_of_its_parent(tmp_path: Path) -> None:
    engine = EngineSettings(model="某/模型", port=9999, extra_args=["--seed", "7"], eager=False)  # type: ignore[call-arg]
    settings = settings_in(tmp_path, engine=engine, api_port=9998, price_book=tmp_path / "价.toml")
    code = "from core.settings import load_settings; print(load_settings().model_dump_json())"
    environment = settings_environment(settings) | {"PATH": "/usr/bin:/bin"}
    output = subprocess.run(
        [sys.executable, "-c", code],
        env=environment,
        cwd=PACKAGE_ROOT,
        capture_output=True,
        check=True,
        encoding="utf-8",
    ).stdout
    assert json.loads(output) == settings.model_dump(mode="json")


def test_the_valkey_wheel_has_a_server_for_this_machine() -> None:
    assert find_valkey_binary().is_file()
