"""The few statements that are said at every boundary while an agent waits, written down once instead of composed.

The bench's goal: a boundary is decided within 20 ms, and to compose one of these costs six times as much as to carry it
out. Names come from our own models, never from outside. Values go through their fields' conversion, as anywhere else.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any, TypeAlias

from django.db import connection, models

AnyField: TypeAlias = "models.Field[Any, Any]"


def insert(rows: Sequence[models.Model], *, else_update: str = "") -> None:
    """Insert rows of one model; one that is there already is left alone.

    `else_update`: a unique column by which it is found and overwritten instead. Keys that the database gives are not
    read back.
    """
    if not rows:
        return
    sql, fields = _insert(type(rows[0]), else_update)
    values = [[field.get_db_prep_save(field.pre_save(row, True), connection) for field in fields] for row in rows]
    with connection.cursor() as cursor:
        if len(values) == 1:
            cursor.execute(sql, values[0])
        else:
            cursor.executemany(sql, values)


@cache
def _insert(model: type[models.Model], else_update: str) -> tuple[str, tuple[AnyField, ...]]:
    fields = tuple(field for field in model._meta.concrete_fields if not isinstance(field, models.AutoField))
    names = [_name(field.column) for field in fields]
    table, places = _name(model._meta.db_table), ", ".join(["%s"] * len(names))
    sql = f"INSERT INTO {table} ({', '.join(names)}) VALUES ({places})"  # noqa: S608
    if not else_update:
        return f"{sql} ON CONFLICT DO NOTHING", fields
    key = _name(_field(model, else_update).column)
    kept = ", ".join(f"{name} = excluded.{name}" for name in names if name != key)
    return f"{sql} ON CONFLICT ({key}) DO UPDATE SET {kept}", fields


def change(model: type[models.Model], pk: object, to: Mapping[str, Any], add: Mapping[str, Any]) -> int:
    """Set the columns of `to` and raise those of `add` in one row; how many rows there were (0 or 1)."""
    sets: list[str] = []
    values: list[Any] = []
    for name, value in to.items():
        field = _field(model, name)
        sets.append(f"{_name(field.column)} = %s")
        values.append(field.get_db_prep_save(value, connection))
    for name, value in add.items():
        field = _field(model, name)
        column = _name(field.column)
        # as an expression of the ORM says it: a decimal is text to SQLite
        exact = isinstance(field, models.DecimalField)
        sum_ = f"CAST({column} + CAST(%s AS NUMERIC) AS NUMERIC)" if exact else f"{column} + %s"
        sets.append(f"{column} = {sum_}")
        values.append(value)
    key = model._meta.pk
    table = _name(model._meta.db_table)
    sql = f"UPDATE {table} SET {', '.join(sets)} WHERE {_name(key.column)} = %s"  # noqa: S608
    with connection.cursor() as cursor:
        cursor.execute(sql, [*values, key.get_db_prep_save(pk, connection)])
        return int(cursor.rowcount)


class Followed:
    """A row that is read again and again into the same object: only columns that changed are converted anew."""

    def __init__(self, row: models.Model) -> None:
        self.row = row
        self._raw: Sequence[Any] = ()
        self._values: dict[str, Any] = {}

    def refresh(self) -> None:
        """As `refresh_from_db`, whatever was set on the object since. Raises DoesNotExist."""
        model = type(self.row)
        sql, readers = _select(model)
        with connection.cursor() as cursor:
            cursor.execute(sql, [self.row.pk])
            raw = cursor.fetchone()
        if raw is None:
            raise model.DoesNotExist(f"{model.__name__} {self.row.pk} is gone")  # type: ignore[attr-defined]
        before = self._raw or [_NEVER] * len(raw)
        for (name, read), was, now in zip(readers, before, raw, strict=True):
            if was != now or was is _NEVER:
                self._values[name] = read(now)
        self._raw = raw
        self.row.__dict__.update(self._values)


_NEVER = object()


@cache
def _select(model: type[models.Model]) -> tuple[str, tuple[tuple[str, Callable[[Any], Any]], ...]]:
    fields = model._meta.concrete_fields
    columns = ", ".join(_name(field.column) for field in fields)
    table, key = _name(model._meta.db_table), _name(model._meta.pk.column)
    sql = f"SELECT {columns} FROM {table} WHERE {key} = %s"  # noqa: S608
    return sql, tuple((field.attname, _reader(model, field)) for field in fields)


def _reader(model: type[models.Model], field: AnyField) -> Callable[[Any], Any]:
    column = field.get_col(model._meta.db_table)
    converters: Iterable[Callable[..., Any]] = [
        *connection.ops.get_db_converters(column),
        *column.get_db_converters(connection),
    ]

    def read(value: Any) -> Any:
        for convert in converters:
            value = convert(value, column, connection)
        return value

    return read


@cache
def _field(model: type[models.Model], name: str) -> AnyField:
    return next(field for field in model._meta.concrete_fields if field.name == name)


def _name(name: str | None) -> str:
    return connection.ops.quote_name(str(name))
