# AnyEvent::RabbitMQ, which speaks 0-9 with RabbitMQ's extensions: what the test of this language expects line by line.
# Arguments: host, port, prefix of names.
use strict;
use warnings;
use AnyEvent;
use AnyEvent::RabbitMQ;

$| = 1;
my ($host, $port, $name) = @ARGV;
my $guard = AnyEvent->timer(after => 40, cb => sub { die "nothing came\n" });

sub answer {
    my ($ask) = @_;
    my $done = AnyEvent->condvar;
    $ask->(
        on_success => sub { $done->send($_[0]) },
        on_failure => sub { $done->croak(ref $_[0] ? $_[0]->method_frame->reply_text : $_[0]) },
    );
    return $done->recv;
}

my $client = AnyEvent::RabbitMQ->new->load_xml_spec;
my $connection = answer(sub {
    $client->connect(host => $host, port => $port, user => 'guest', pass => 'guest', vhost => '/',
        on_close => sub { }, on_read_failure => sub { die @_ }, @_);
});
my $channel = answer(sub { $connection->open_channel(@_) });
answer(sub { $channel->confirm(@_) });
answer(sub { $channel->declare_exchange(exchange => "$name-exchange", type => 'topic', durable => 1, @_) });
answer(sub { $channel->declare_queue(queue => "$name-queue", durable => 1, arguments => { 'x-max-length' => 1000 }, @_) });
answer(sub { $channel->bind_queue(queue => "$name-queue", exchange => "$name-exchange", routing_key => '*.orders', @_) });
print "declared and bound\n";

my $acknowledged = 0;
my $confirmed = AnyEvent->condvar;
sub publish {
    my %what = @_;
    $channel->publish(%what, on_ack => sub { $confirmed->send if ++$acknowledged == 4 }, on_nack => sub { die "nack" });
}
answer(sub { $channel->qos(prefetch_count => 2, @_) });
publish(exchange => "$name-exchange", routing_key => 'eu.orders', body => $_,
    header => { delivery_mode => 2, headers => { number => 1, list => [1, 'x'] } }) for qw(a b c);
publish(exchange => "$name-exchange", routing_key => 'eu.returns', body => 'elsewhere');
$confirmed->recv;
print "confirmed\n";

my (@seen, $tag);
my $all = AnyEvent->condvar;
answer(sub {
    $channel->consume(
        queue => "$name-queue", no_ack => 0, @_,
        on_consume => sub {
            my $delivery = shift;
            my $frame = $delivery->{deliver}->method_frame;
            my $body = $delivery->{body}->payload;
            $tag = $frame->consumer_tag;
            if ($body eq 'b' && !$frame->redelivered) {
                $channel->reject(delivery_tag => $frame->delivery_tag, requeue => 1);
                return;
            }
            my $headers = $delivery->{header}->headers;
            die "headers" unless $headers->{number} == 1 && $headers->{list}[1] eq 'x';
            $channel->ack(delivery_tag => $frame->delivery_tag);
            push @seen, $body;
            $all->send if @seen == 3;
        },
    );
});
$all->recv;
answer(sub { $channel->cancel(consumer_tag => $tag, @_) });
print "consumed ", join(' ', sort @seen), "\n";

my $stored = AnyEvent->condvar;
$channel->publish(routing_key => "$name-queue", body => 'd', on_ack => sub { $stored->send });
$stored->recv;
my $got = answer(sub { $channel->get(queue => "$name-queue", no_ack => 1, @_) });
my $nothing = answer(sub { $channel->get(queue => "$name-queue", no_ack => 1, @_) });
print "got ", $got->{body}->payload, ", then ", ($nothing->{body} ? 'more' : 'nothing'), "\n";

my $refused = AnyEvent->condvar;
$connection->open_channel(
    on_success => sub { $_[0]->declare_queue(queue => "$name-missing", passive => 1, on_success => sub { }, on_failure => sub { }) },
    on_failure => sub { },
    on_close => sub { my $frame = $_[0]->method_frame; $refused->send($frame->reply_code . ' ' . $frame->reply_text) },
);
print "refused ", $refused->recv, "\n";
answer(sub { $channel->delete_queue(queue => "$name-queue", @_) });
answer(sub { $channel->delete_exchange(exchange => "$name-exchange", @_) });
answer(sub { $connection->close(@_) });
print "closed\n";
