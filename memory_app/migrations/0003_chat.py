import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('memory_app', '0002_api_keys'),
    ]

    operations = [
        migrations.CreateModel(
            name='ChatThread',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('owner', models.CharField(blank=True, help_text='Whose thread it is; the API uses the collection.', max_length=255, verbose_name='owner')),
                ('thread_id', models.CharField(max_length=255, verbose_name='thread id')),
                ('metadata', models.JSONField(blank=True, default=dict, verbose_name='metadata')),
                ('created_at', models.DateTimeField(verbose_name='created at')),
                ('updated_at', models.DateTimeField(verbose_name='last activity')),
                ('next_seq', models.BigIntegerField(default=0, verbose_name='next sequence number')),
                ('message_count', models.PositiveIntegerField(default=0, verbose_name='messages')),
                ('token_total', models.BigIntegerField(default=0, verbose_name='tokens in all')),
            ],
            options={
                'verbose_name': 'chat thread',
                'verbose_name_plural': 'chat threads',
                'ordering': ('-updated_at', '-id'),
                'indexes': [models.Index(fields=['owner', '-updated_at', '-id'], name='cm_chat_thread_activity')],
                'constraints': [models.UniqueConstraint(fields=('owner', 'thread_id'), name='cm_chat_thread_once')],
            },
        ),
        migrations.CreateModel(
            name='ChatMessage',
            fields=[
                ('id', models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name='ID')),
                ('seq', models.BigIntegerField(verbose_name='sequence number')),
                ('message_id', models.CharField(max_length=255, verbose_name='message id')),
                ('role', models.CharField(max_length=16, verbose_name='role')),
                ('created_at', models.DateTimeField(verbose_name='created at')),
                ('hidden', models.BooleanField(default=False, verbose_name='kept out of windows')),
                ('token_count', models.IntegerField(null=True, verbose_name='tokens')),
                ('content', models.TextField(blank=True, verbose_name='content')),
                ('metadata', models.JSONField(blank=True, default=dict, verbose_name='metadata')),
                ('wire', models.TextField(blank=True, verbose_name='other fields')),
                ('folded', models.TextField(blank=True, editable=False)),
                ('thread', models.ForeignKey(db_index=False, on_delete=django.db.models.deletion.CASCADE, related_name='messages', to='memory_app.chatthread', verbose_name='thread')),
            ],
            options={
                'verbose_name': 'chat message',
                'verbose_name_plural': 'chat messages',
                'ordering': ('thread', 'seq'),
                'indexes': [models.Index(fields=['thread', 'created_at'], name='cm_chat_message_time'), models.Index(condition=models.Q(('role__in', ('system', 'developer'))), fields=['thread', 'role', 'seq'], name='cm_chat_message_rules'), models.Index(condition=models.Q(('hidden', True)), fields=['thread', 'seq'], name='cm_chat_message_hidden')],
                'constraints': [models.UniqueConstraint(fields=('thread', 'seq'), name='cm_chat_message_place'), models.UniqueConstraint(fields=('thread', 'message_id'), name='cm_chat_message_once')],
            },
        ),
    ]
